"""The command line in the process of a test, for tests that check only its output."""

from __future__ import annotations

import gc

import pytest

from dragoman.gateway.cli.program import main
from tests.gateway.recording.lines import FROZEN

RECORDED = str(FROZEN / "v4.jsonl")


class Run:
    """A function that runs the program with arguments and returns its exit code, stdout and stderr."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capfd = capfd

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self._monkeypatch.setattr("sys.argv", ["dragoman", *arguments])
        self._monkeypatch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit) as caught:
            main()
        gc.enable()  # `main` turns it off for the start of a process
        out, err = self._capfd.readouterr()
        assert isinstance(caught.value.code, int)
        return caught.value.code, out, err
