"""Turns that a recording lacks are added to it and replayed from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.gateway.recording.format import CommandLine, FrameLine
from dragoman.gateway.recording.index import compressed
from dragoman.gateway.recording.reader import Problems, open_part, open_recording
from dragoman.gateway.replay.missing import append_missing, check_appendable, keep_missing, live_turns, missing_folder
from dragoman.gateway.replay.plan import read_plan
from dragoman.mappings.canonical.commands import SubmitInput
from dragoman.mappings.canonical.events import TextDelta
from dragoman.mappings.canonical.values import flatten
from dragoman.mappings.errors import ConfigError
from tests.gateway.recording.lines import in_parts
from tests.gateway.replay.recording_builder import RecordingBuilder, WatchedReplay, said


def session(folder: Path) -> Path:
    """Return the recording of a session whose first and last turn were replayed and whose middle turn was live."""
    tape = RecordingBuilder(asks_backend=False, turns=10)  # other ids than the turns of the recording that is played
    tape.turn("one", TextDelta(text="1"))
    tape.asks_backend = True
    tape.turn("new", TextDelta(text="live")).frame()
    tape.asks_backend = False
    tape.turn("two", TextDelta(text="2"))
    return tape.write(folder, "session.jsonl")


def fail(error: Exception) -> None:
    raise error


def texts(path: Path) -> list[str]:
    return [
        flatten(s.input.segments) for s in read_plan(open_recording(path)).turns if isinstance(s.input, SubmitInput)
    ]


def answer(path: Path, text: str) -> str:
    watched = WatchedReplay(read_plan(open_recording(path)))
    return "".join(event.text for event in watched.asks(said(text)) if isinstance(event, TextDelta))


def test_only_turns_of_the_live_backend_count_as_missing(tmp_path: Path) -> None:
    (turn,) = live_turns(open_recording(session(tmp_path)).lines())
    first = turn[0]
    assert isinstance(first, CommandLine)
    assert isinstance(first.command, SubmitInput)
    assert flatten(first.command.segments) == "new"
    assert isinstance(turn[-1], FrameLine), "up to the next input"


@pytest.mark.parametrize("asks_backend", [True, False])
def test_added_turns_are_replayed_like_recorded_ones(asks_backend: bool, tmp_path: Path) -> None:
    recording = (
        RecordingBuilder(asks_backend=asks_backend).turn("one", TextDelta(text="1")).turn("two", TextDelta(text="2"))
    )
    path = recording.write(tmp_path)
    assert append_missing(path, [open_recording(session(tmp_path))]) == 1
    assert texts(path) == ["one", "two", "new"]
    assert [answer(path, text) for text in ("one", "two", "new")] == ["1", "2", "live"]
    lines = list(open_recording(path).lines())
    assert [line.seq for line in lines] == list(range(1, len(lines) + 1))
    assert sorted(line.t for line in lines) == [line.t for line in lines]


def test_a_torn_line_stays_a_line_of_its_own(tmp_path: Path) -> None:
    path = RecordingBuilder().turn("one", TextDelta(text="1")).write(tmp_path)
    with path.open("ab") as file:
        file.write(b'{"kind":"event","seq":')
    append_missing(path, [open_recording(session(tmp_path))])
    recording = open_recording(path)
    assert texts(path) == ["one", "new"]
    assert list(recording.lines())
    assert recording.problems.damaged == 1


def test_turns_left_by_a_killed_replay_are_added_and_their_file_removed(tmp_path: Path) -> None:
    path = RecordingBuilder().turn("one").write(tmp_path)
    folder = missing_folder(path)
    folder.mkdir()
    session(folder)
    assert (keep_missing(path, fail), keep_missing(path, fail)) == (1, 0)
    assert not folder.exists()


def test_turns_of_a_session_in_parts_are_added_once(tmp_path: Path) -> None:
    path = RecordingBuilder().turn("one", TextDelta(text="1")).write(tmp_path)
    folder = missing_folder(path)
    folder.mkdir()
    in_parts(folder / "session.jsonl", list(open_recording(session(tmp_path)).lines()), 3)
    assert keep_missing(path, fail) == 1
    assert texts(path) == ["one", "new"]
    assert not folder.exists()


def test_a_file_that_a_killed_replay_left_empty_is_passed_over_and_reported(tmp_path: Path) -> None:
    path = RecordingBuilder().turn("one", TextDelta(text="1")).write(tmp_path)
    folder = missing_folder(path)
    folder.mkdir()
    (folder / "empty.jsonl").touch()
    session(folder)
    reported: list[Exception] = []
    assert keep_missing(path, reported.append) == 1
    assert [left.name for left in folder.iterdir()] == ["empty.jsonl"]
    assert list(map(str, reported)) == [f"{folder}/empty.jsonl is empty: nothing was recorded"]


def test_turns_are_added_once_although_a_replay_was_killed_before_it_removed_their_file(tmp_path: Path) -> None:
    path = RecordingBuilder().turn("one", TextDelta(text="1")).write(tmp_path)
    folder = missing_folder(path)
    folder.mkdir()
    assert append_missing(path, [open_recording(session(folder))]) == 1, "then it was killed"
    assert keep_missing(path, fail) == 0
    assert texts(path) == ["one", "new"]
    assert not folder.exists()


def test_adding_to_a_compressed_recording_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(
        b"".join(compressed(RecordingBuilder().turn("one").write(tmp_path).read_bytes().splitlines(keepends=True)))
    )
    with pytest.raises(ConfigError, match="unpack it, `zstd -d"):
        check_appendable(path)
    check_appendable(RecordingBuilder().turn("one").write(tmp_path))


def test_turns_added_to_a_recording_in_parts_go_to_its_last_part(tmp_path: Path) -> None:
    whole = RecordingBuilder().turn("one", TextDelta(text="1")).turn("two", TextDelta(text="2")).write(tmp_path)
    lines = list(open_recording(whole).lines())
    first, last = in_parts(tmp_path / "parts.jsonl", lines, 3)
    assert check_appendable(first) == last
    assert append_missing(check_appendable(first), [open_recording(session(tmp_path))]) == 1
    assert texts(first) == ["one", "two", "new"]
    assert len(list(open_part(first).steps(Problems()))) == 1, "nothing was added to the first part"
