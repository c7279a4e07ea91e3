"""A configuration file for a test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    path = tmp_path / "dragoman.gateway.toml"

    def written(text: str) -> Path:
        path.write_text(text.replace("TMP", str(tmp_path)), "utf-8")
        path.chmod(0o600)
        return path

    return written
