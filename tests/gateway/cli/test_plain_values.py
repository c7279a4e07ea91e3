"""Values that no command takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("export", RECORDED, "--format", "pdf木"), "'pdf木' is not one of"),
        (("bridge", "pod+unix:木", "pod+unix:/none"), "error: 木: this locale cannot encode the name of a file"),
    ],
)
def test_a_utf8_text_is_read_in_a_locale_without_utf8(arguments: tuple[str, ...], words: str) -> None:
    command = [sys.executable, "-m", "dragoman", *arguments]
    environment = {**os.environ, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "POSIX"}
    done = subprocess.run(command, capture_output=True, encoding="utf-8", env=environment, check=False)
    assert words in done.stderr


def test_several_numbers_are_read(dragoman: Run) -> None:
    code, out, _ = dragoman("show", RECORDED, "--turn", "1", "--json")
    assert (code, {row["turn"] for row in json.loads(out)}) == (0, {1})


def test_a_path_may_have_any_bytes(tmp_path: Path, dragoman: Run) -> None:
    path = tmp_path / "\udcff.jsonl"
    path.symlink_to(RECORDED)
    assert dragoman("show", str(path))[0] == 0


@pytest.mark.parametrize("command", [("send", "pod+unix:/none", "hi"), ("drive", RECORDED, "pod+unix:/none")])
@pytest.mark.parametrize("seconds", ["inf", "1e10", "nan"])
def test_a_duration_is_at_most_a_year(command: tuple[str, ...], seconds: str, dragoman: Run) -> None:
    code, _, error = dragoman(*command, "--deadline", seconds)
    words = f"Invalid value for '--deadline': {seconds!r} is not a number from 0.1 to 31536000"
    assert (code, error) == (2, f"error: {words} (dragoman {command[0]} --help says more)\n")


@pytest.mark.parametrize("limit", ["1", "1000"])
def test_a_number_may_be_either_bound(limit: str, dragoman: Run) -> None:
    code, _, error = dragoman("sessions", "--limit", limit, "--ops", NOWHERE)
    assert error.startswith(f"error: no gateway answers at {NOWHERE}"), code


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("send", "pod+unix:/none", "hi", "--deadline", "soon"), "'--deadline': 'soon' is not a number from 0.1 to "),
        (("sessions", "--limit", "0"), "'--limit': '0' is not a whole number from 1 to 1000 "),
        (("sessions", "--limit", "1.5"), "'--limit': '1.5' is not a whole number from 1 to 1000 "),
        (("show", RECORDED, "--turn", "1", "--turn", "x"), "'--turn': 'x' is not a whole number "),
        (("export", RECORDED, "--format", "pdf"), "'--format': 'pdf' is not one of html, cloudevents "),
    ],
)
def test_a_wrong_number_or_choice_is_refused_with_the_right_ones(
    arguments: tuple[str, ...], words: str, dragoman: Run
) -> None:
    code, _, error = dragoman(*arguments)
    assert (code, error.startswith(f"error: Invalid value for {words}")) == (2, True), error
