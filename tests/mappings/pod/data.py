"""Vectors and captures of pod in tests/data, and the round trip of one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.mappings.dialect import Direction, Step
from dragoman.mappings.pod import DIALECT

DATA = Path(__file__).parents[2] / "data"


def _rows(path: Path) -> list[dict[str, Any]]:
    # U+2028 stands raw in the captures: only \n ends a line
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


VECTORS = _rows(DATA / "vectors" / "pod.jsonl")
CAPTURES = sorted((DATA / "captures" / "pod").glob("*.jsonl"))


def captured(path: Path) -> Iterator[tuple[str, str, bytes]]:
    """Yield connection, direction and frame of each captured line."""
    for row in _rows(path)[1:]:
        yield row["conn"], row["dir"], row["frame"].encode()


def direction_of(name: str) -> Direction[Any]:
    """Return the direction of a vector or a captured line."""
    return DIALECT.commands if name in ("client_to_pod", "c2s") else DIALECT.events


def back_and_forth(direction: Direction[Any], frame: bytes) -> tuple[Step[Any], list[bytes]]:
    """Return the step of reading one line, and the lines that it is written as."""
    step: Step[Any] = Step()
    direction.receive([frame], step)
    return step, [out for burst in step.bursts for out in direction.write(burst).frames]
