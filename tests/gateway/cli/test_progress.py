from __future__ import annotations

import sys

import pytest

from dragoman.gateway.cli.progress import LONG, progress, steps


def test_without_a_terminal_there_is_no_progress(capfd: pytest.CaptureFixture[str]) -> None:
    with progress("a.jsonl", 2 * LONG) as done:
        done(LONG)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("size", "shown"), [(2 * LONG, True), (LONG - 1, False)])
def test_long_work_shows_its_progress_on_a_terminal(
    size: int, shown: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with progress("a.jsonl", size) as done:
        done(LONG)
    out, err = capfd.readouterr()
    assert out == ""
    assert ("a.jsonl" in err) is shown


@pytest.mark.parametrize("terminal", [True, False])
def test_steps_are_counted_only_on_a_terminal(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with steps("a.jsonl", 3) as done:
        done(2)
    out, err = capfd.readouterr()
    assert out == ""
    assert ("2/3" in err) is terminal


def test_output_during_progress_goes_to_stdout_unchanged(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With `dragoman show atlas.jsonl --json > out.json` the progress bar is on the terminal, and the output is not."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    for bar in (progress("a.jsonl", 2 * LONG), steps("a.jsonl", 3)):
        with bar as done:
            done(1)
            sys.stdout.write("the answer\n")
        assert capfd.readouterr().out == "the answer\n"
