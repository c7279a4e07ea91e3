"""`dragoman drive` and `dragoman replay` as programs: what they print, and their exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.mappings.canonical.events import TextDelta
from tests.gateway.replay.recording_builder import RecordingBuilder


def dragoman(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dragoman", *arguments], capture_output=True, text=True, timeout=50, check=False
    )


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return RecordingBuilder().turn("one", TextDelta(text="1")).turn("two", TextDelta(text="2")).write(tmp_path)


def replay(path: Path) -> str:
    return f"replay+file:{path}?speed=instant"


def test_a_backend_that_does_the_same_is_well(recording: Path) -> None:
    done = dragoman("drive", str(recording), replay(recording))
    assert (done.returncode, done.stdout) == (0, f"2 turns, the same as in {recording}\n")


def test_one_that_does_not_is_told_and_exits_1(recording: Path, tmp_path: Path) -> None:
    other = (
        RecordingBuilder()
        .turn("one", TextDelta(text="1"))
        .turn("two", TextDelta(text="two"))
        .write(tmp_path, "other.jsonl")
    )
    done = dragoman("drive", str(recording), replay(other))
    assert done.returncode == 1
    assert done.stdout == f"turn 2: text\n- 2\n+ two\n- {recording}\n+ {replay(other)}\n"


def test_scripts_get_it_as_json(recording: Path, tmp_path: Path) -> None:
    other = RecordingBuilder().turn("one", TextDelta(text="1")).write(tmp_path, "other.jsonl")
    done = dragoman("drive", str(recording), replay(other), "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 1
    assert (told["turns"], [d["what"] for d in told["differences"]]) == (2, ["turn"])
    assert told["refusals"] == ["the backend refused: replay: the recording has nothing like it"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("drive", "{file}.not", "pod+unix:/p"), "No such file"),
        (("replay", "{file}", "--listen", "pod+unix:/p", "--speed", "fast"), "write real, instant"),
        (("replay", "{file}", "--listen", "pod+unix:/p", "--mode", "wild"), "write strict, spy or record-missing"),
        (("replay", "{file}", "--listen", "pod+unix:/p", "--mode", "record-missing"), "add --upstream ENDPOINT"),
    ],
)
def test_what_is_written_wrong_is_one_line_and_exits_2(recording: Path, arguments: tuple[str, ...], words: str) -> None:
    done = dragoman(*(argument.format(file=recording) for argument in arguments))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert words in done.stderr


@pytest.mark.parametrize(
    ("until", "words"),
    [("turn:3", "there is no turn 3: it has 2"), ("999", "there is no line 999: it ends before")],
)
def test_an_end_that_is_not_there_is_said(recording: Path, until: str, words: str) -> None:
    listen = ("--listen", "smooth+ws://127.0.0.1:0/ws", "--until", until, "--then", "pod+unix:/nowhere")
    done = dragoman("replay", str(recording), *listen)
    assert (done.returncode, done.stderr) == (2, f"error: {recording}: {words}\n")
