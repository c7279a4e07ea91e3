"""A marker for the processes of each test. A test must leave none of them running or unreaped, and no open file."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator

import pytest

from tests.adapters.stdio.programs import marker, running, unreaped

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h

collect_ignore_glob = [] if sys.platform == "linux" else ["test_*.py"]  # /proc tells who runs


@pytest.fixture
def mark() -> str:
    return marker()


@pytest.fixture(autouse=True)
def _nobody_is_left(mark: str) -> Iterator[None]:
    yield
    assert running(mark) == []
    assert unreaped() == []


@pytest.fixture
def _adopts_processes() -> Iterator[None]:
    """Become the parent of processes whose parent has ended, like the first process of a container.

    The init process of this machine may take seconds to reap them.
    """
    prctl = ctypes.CDLL(None).prctl
    assert prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    assert prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) == 0
