"""Recordings as every command finds them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dragoman.gateway.cli.recordings import LONG, progress, steps
from tests.gateway.cli.program import RECORDED, Run

COMMANDS = [
    ("show", "{file}"),
    ("scan", "{file}"),
    ("diff", RECORDED, "{file}"),
    ("replay", "{file}", "--listen", "smooth+ws://127.0.0.1:0/ws"),
    ("drive", "{file}", "pod+unix:/none/sock"),
    ("export", "{file}", "-o", "-"),
]


@pytest.fixture
def loop(tmp_path: Path) -> Path:
    """Return a link to itself."""
    path = tmp_path / "loop.jsonl"
    path.symlink_to(path)
    return path


@pytest.mark.parametrize("command", COMMANDS)
def test_a_link_to_itself_is_an_error_and_a_folder_of_it_is_empty(
    command: tuple[str, ...], loop: Path, dragoman: Run
) -> None:
    cases = ((loop, ": Too many levels of symbolic links"), (loop.parent, " holds no recording of a session"))
    for file, words in cases:
        code, out, err = dragoman(*(part.format(file=file) for part in command))
        assert (code, out, err.splitlines()[-1]) == (2, "", f"error: {file}{words}")


def test_a_link_to_itself_hides_no_recording_beside_it(loop: Path, dragoman: Run) -> None:
    (loop.parent / "v4.jsonl").symlink_to(RECORDED)
    assert dragoman("show", str(loop.parent))[0] == 0


# -- progress


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
