"""The pando vectors and captures of tests/data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.mappings.dialect import Direction, Parts
from dragoman.mappings.pando import DIALECT
from tests.data_files import captures, rows, vectors

VECTORS = vectors("pando")
CAPTURES = captures("pando")


def captured(path: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Yield connection, direction and ZeroMQ frames of each captured message."""
    for row in rows(path)[1:]:
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
