"""The files of tests/data, and the captures of smooth-operator, which are not part of this repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.shared import SHARED

DATA = Path(__file__).parent / "data"


def rows(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file. U+2028 stands raw in the captures, so only a newline ends a line."""
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def value_of(frame: bytes | str) -> Any:
    """Return the JSON value of a frame, or None if it has none: some peers send broken frames, also in the captures."""
    try:
        return json.loads(frame)
    except ValueError:
        return None


def vectors(dialect: str) -> list[dict[str, Any]]:
    """Return the wire vectors of a dialect."""
    return rows(DATA / "vectors" / f"{dialect}.jsonl")


def captures(dialect: str) -> list[Path]:
    """Return the captures of a dialect in the order of their names; none of smooth without the shared material."""
    if dialect != "smooth":
        return sorted((DATA / "captures" / dialect).glob("*.jsonl"))
    return sorted((SHARED / "smooth-operator" / "captures").glob("*.jsonl")) if SHARED is not None else []


def captured_smooth(way: str) -> list[str]:
    """Return the captured frames of smooth programs that went one way: "s2c" or "c2s"."""
    found = [row for file in captures("smooth") for row in rows(file)]
    return [row["frame"] for row in found if row.get("dir") == way and isinstance(row.get("frame"), str)]
