"""The program run in the process of the test."""

from __future__ import annotations

import pytest

from tests.gateway.cli.program import Run


@pytest.fixture
def dragoman(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Run the program in this process; return its exit code, stdout and stderr."""
    return Run(monkeypatch, capfd)
