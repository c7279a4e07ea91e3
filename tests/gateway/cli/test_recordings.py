"""Recordings as every command finds them."""

from __future__ import annotations

from pathlib import Path

import pytest

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
