"""The codewhale vectors and captures of tests/data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.mappings.codewhale import DIALECT
from dragoman.mappings.dialect import Direction
from tests.data_files import captures, rows, vectors

VECTORS = vectors("codewhale")
CAPTURES = captures("codewhale")

LINES = [row for row in VECTORS if not row["name"].startswith(("value.", "runtime."))]  # no message carries the others
"""Vectors that are lines on the wire; the others are values without a message, and HTTP."""


def thread_row(thread: str, cwd: str = "/w") -> dict[str, Any]:
    """Return a thread as a server describes it."""
    return {
        "id": thread,
        "preview": "New conversation",
        "ephemeral": True,
        "model_provider": "deepseek",
        "created_at": 1,
        "updated_at": 1,
        "status": "running",
        "cwd": cwd,
        "cli_version": "0.9.10",
        "source": "interactive",
    }


def captured(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield connection, direction and text of each captured line."""
    for row in rows(path)[1:]:
        yield row["conn"], row["dir"], row["frame"]


def capture(number: str) -> Path:
    """Return the capture with this number."""
    return next(path for path in CAPTURES if path.stem.startswith(number))


def captured_answers(number: str) -> list[Any]:
    """Return the lines that the server of a capture wrote."""
    return [json.loads(line) for _, way, line in captured(capture(number)) if way == "s2c"]


def vector(name: str) -> Any:
    """Return the JSON of the vector with this name."""
    return json.loads(next(row["wire"] for row in VECTORS if row["name"] == name))


def direction_of(name: str) -> Direction[Any]:
    """Return the direction that a vector or a captured line names."""
    return DIALECT.commands if name in ("client_to_server", "c2s") else DIALECT.events
