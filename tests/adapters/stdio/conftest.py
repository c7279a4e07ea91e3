"""Every test here has a marker for its processes, and must have left none of them, none unreaped and no open file."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.adapters.stdio.programs import marker, running, unreaped

collect_ignore_glob = [] if sys.platform == "linux" else ["test_*.py"]  # /proc tells who runs


@pytest.fixture
def mark() -> str:
    return marker()


@pytest.fixture(autouse=True)
def _nobody_is_left(mark: str) -> Iterator[None]:
    yield
    assert running(mark) == []
    assert unreaped() == []
