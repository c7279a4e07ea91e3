"""`dragoman drive` and `dragoman replay` as programs: what they print, and their exit codes."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from msgspec import structs

from dragoman.gateway.cli import replay as command
from dragoman.mappings.canonical.events import OtpRequired, TextDelta
from tests.forked_program import dragoman
from tests.gateway.replay.recording_builder import OF_A_POD, RecordingBuilder


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return RecordingBuilder().turn("one", TextDelta(text="1")).turn("two", TextDelta(text="2")).write(tmp_path)


def replay(path: Path) -> str:
    return f"replay+file:{path}?speed=instant"


def test_a_backend_with_the_same_answers_exits_0(recording: Path) -> None:
    done = dragoman("drive", str(recording), replay(recording))
    assert (done.returncode, done.stdout) == (0, f"2 turns, the same as in {recording}\n")


def test_a_backend_with_other_answers_is_reported_and_exits_1(recording: Path, tmp_path: Path) -> None:
    other = (
        RecordingBuilder()
        .turn("one", TextDelta(text="1"))
        .turn("two", TextDelta(text="two"))
        .write(tmp_path, "other.jsonl")
    )
    done = dragoman("drive", str(recording), replay(other))
    assert done.returncode == 1
    assert done.stdout == f"turn 2: text\n- 2\n+ two\n- {recording}\n+ {replay(other)}\n"


def test_a_recording_without_turns_is_not_driven(recording: Path, tmp_path: Path) -> None:
    """ "Nothing to compare" must not look like "no difference"."""
    empty = RecordingBuilder().sends(TextDelta(text="1")).write(tmp_path, "empty.jsonl")
    done = dragoman("drive", str(empty), replay(recording))
    words = f"error: {empty} has no turn that a client began: nothing can be driven\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", words)


def test_a_backend_that_cannot_be_reached_exits_2(recording: Path, tmp_path: Path) -> None:
    done = dragoman("drive", str(recording), f"pod+unix:{tmp_path}/none", "--deadline", "5")
    assert (done.returncode, done.stdout) == (2, "")
    words = f"the socket does not exist; start the backend, or correct the path (pod+unix:{tmp_path}/none)"
    assert done.stderr == f"error: the backend cannot be reached: {words}\n"


def test_fields_that_a_dialect_cannot_express_are_compared_unless_ignored(tmp_path: Path) -> None:
    """A smooth backend can ask for a code; the replay of a pod cannot."""
    code = OtpRequired(tool="pay", description="42", channels=("sms",), auth_level="basic")
    header = structs.replace(OF_A_POD, dialects={"smooth": "1.57"}, upstream="smooth+ws://127.0.0.1:1/ws")
    path = RecordingBuilder(header).turn("one", code, TextDelta(text="1")).write(tmp_path, "smooth.jsonl")
    other = replay(RecordingBuilder().turn("one", TextDelta(text="1")).write(tmp_path, "pod.jsonl"))
    assert dragoman("drive", str(path), other).returncode == 1
    done = dragoman("drive", str(path), other, "--ignore-inexpressible")
    assert (done.returncode, done.stdout) == (0, f"not compared: otp_required\n1 turn, the same as in {path}\n")
    told = json.loads(dragoman("drive", str(path), other, "--ignore-inexpressible", "--json").stdout)
    assert told == {"turns": 1, "differences": [], "refusals": [], "ignored": ["otp_required"]}


def test_the_report_can_be_printed_as_json(recording: Path, tmp_path: Path) -> None:
    other = RecordingBuilder().turn("one", TextDelta(text="1")).write(tmp_path, "other.jsonl")
    done = dragoman("drive", str(recording), replay(other), "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 1
    assert (told["turns"], [d["what"] for d in told["differences"]]) == (2, ["turn"])
    assert told["refusals"] == ["the backend refused: replay: the recording has no similar input"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("drive", "{file}.not", "pod+unix:/p"), "No such file"),
        (("replay", "{file}", "--listen", "pod+unix:/p", "--speed", "fast"), "write real, instant"),
        (
            ("replay", "{file}", "--listen", "pod+unix:/p", "--mode", "wild"),
            "'wild' is not one of strict, spy, record-missing",
        ),
        (("replay", "{file}", "--listen", "pod+unix:/p", "--mode", "record-missing"), "add --upstream ENDPOINT"),
    ],
)
def test_wrong_usage_prints_one_line_and_exits_2(recording: Path, arguments: tuple[str, ...], words: str) -> None:
    done = dragoman(*(argument.format(file=recording) for argument in arguments))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert words in done.stderr


@pytest.mark.parametrize(
    ("until", "words"),
    [("turn:3", "the recording has no turn 3, only 2"), ("999", "the recording has no line 999: it ends earlier")],
)
def test_a_fork_point_that_does_not_exist_is_reported(recording: Path, until: str, words: str) -> None:
    listen = ("--listen", "smooth+ws://127.0.0.1:0/ws", "--until", until, "--then", "pod+unix:/nowhere")
    done = dragoman("replay", str(recording), *listen)
    assert (done.returncode, done.stderr) == (2, f"error: {recording}: {words}\n")


def test_turns_are_added_to_a_recording_without_the_deadline_for_the_end_of_a_gateway(
    recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[float] = []
    monkeypatch.setattr(command, "set_up", lambda *_options: None)
    monkeypatch.setattr(command, "serve_until_signalled", lambda _app: None)
    monkeypatch.setattr(command, "run", lambda _work: signal.setitimer(signal.ITIMER_REAL, 1_000))
    monkeypatch.setattr(command, "keep_missing", lambda *_given: left.append(signal.getitimer(signal.ITIMER_REAL)[0]))
    live = f"pod+unix:{recording.parent}/sock"
    command.replay(recording, [f"{live}2"], "record-missing", live)
    assert left[1:] == [0.0]
