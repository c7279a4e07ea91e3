"""Values that no command takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.cli.program import RECORDED, Run

NOWHERE = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("send", "pod+unix:/none", "caf\udce9"), "TEXT"),
        (("bridge", "pod+unix:\udcff", "pod+unix:/none"), "LISTEN... UPSTREAM"),
        (("sessions", "show", "\udcff", "--ops", NOWHERE), "ID"),
        (("sessions", "list", "--owner", "\udcff", "--ops", NOWHERE), "--owner"),
        (("export", RECORDED, "--format", "\udcff"), "--format"),
    ],
)
def test_a_text_that_is_not_utf8_is_refused(arguments: tuple[str, ...], name: str, dragoman: Run) -> None:
    words = f"error: Invalid value for '{name}': this is not UTF-8 (dragoman {arguments[0]} --help says more)\n"
    assert dragoman(*arguments) == (2, "", words)


def test_a_path_may_have_any_bytes(tmp_path: Path, dragoman: Run) -> None:
    path = tmp_path / "\udcff.jsonl"
    path.symlink_to(RECORDED)
    assert dragoman("show", str(path))[0] == 0


@pytest.mark.parametrize("command", [("send", "pod+unix:/none", "hi"), ("drive", RECORDED, "pod+unix:/none")])
@pytest.mark.parametrize("seconds", ["inf", "1e10", "nan"])
def test_a_duration_is_at_most_a_year(command: tuple[str, ...], seconds: str, dragoman: Run) -> None:
    code, _, error = dragoman(*command, "--deadline", seconds)
    words = "Invalid value for '--deadline': Input should be less than or equal to 31536000"
    assert (code, error) == (2, f"error: {words} (dragoman {command[0]} --help says more)\n")
