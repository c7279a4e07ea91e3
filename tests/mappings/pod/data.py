"""Vectors and captures of pod in tests/data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.data_files import captures, rows, vectors

VECTORS = vectors("pod")
CAPTURES = captures("pod")


def captured(path: Path) -> Iterator[tuple[str, str, bytes]]:
    """Yield connection, direction and frame of each captured line."""
    for row in rows(path)[1:]:
        yield row["conn"], row["dir"], row["frame"].encode()
