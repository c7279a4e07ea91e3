"""The pando vectors and captures of tests/data, and the round trip of one message."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.mappings.dialect import Direction, Frame, Parts, Step
from dragoman.mappings.pando import DIALECT

DATA = Path(__file__).parents[2] / "data"


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


VECTORS = _rows(DATA / "vectors" / "pando.jsonl")
CAPTURES = sorted((DATA / "captures" / "pando").glob("*.jsonl"))


def captured(path: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Yield connection, direction and ZeroMQ frames of each captured message."""
    for row in _rows(path)[1:]:
        yield row["conn"], row["dir"], row["frames"]


def direction_of(name: str) -> Direction[Any]:
    """Return the direction that a vector or a captured message names."""
    return DIALECT.commands if name in ("rpc_request", "c2s") else DIALECT.events


def parts(frames: list[str], channel: str = "") -> Parts:
    """Return ZeroMQ frames as an adapter gives them to a translator."""
    known = channel or ("pub" if len(frames) == 1 else "rpc")
    return Parts(known, b"", tuple(frame.encode() for frame in frames))


def read_of(frames: list[str], direction: Direction[Any]) -> bytes:
    """Return the one frame of a valid message that its receivers read."""
    is_call = direction is DIALECT.commands or (len(frames) > 1 and not frames[0])
    return frames[-1 if is_call else 0].encode()


def value(frame: bytes) -> Any:
    """Return a frame as JSON: a reply or request, or topic and envelope."""
    topic, nul, body = frame.partition(b"\0")
    return [topic.decode(), json.loads(body)] if nul else json.loads(frame)


def back_and_forth(direction: Direction[Any], frame: Frame) -> tuple[Step[Any], list[bytes]]:
    """Read one message and write it again; return the step and the written frames."""
    step: Step[Any] = Step()
    direction.receive([frame], step)
    return step, [out for burst in step.bursts for out in direction.write(burst).frames]
