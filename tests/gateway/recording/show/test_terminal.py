from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.gateway.recording.reader import open_recording, sessions_in
from dragoman.gateway.recording.show.terminal import print_entries, print_sessions, print_turns
from dragoman.gateway.recording.show.transcript import transcript
from dragoman.gateway.recording.show.turns import turn_figures
from dragoman.mappings.canonical.events import TextDelta, TextDone
from tests.gateway.replay.recording_builder import RecordingBuilder

Captured = pytest.CaptureFixture[str]


def printed(path: Path, capsys: Captured) -> list[str]:
    recording = open_recording(path)
    print_entries(recording, transcript(recording.lines()))
    return capsys.readouterr().out.splitlines()


def test_a_long_line_is_not_cut_to_the_width_of_the_terminal(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    path = RecordingBuilder().turn("one", TextDone(text="word " * 100 + "end")).write(tmp_path)
    assert any(line.endswith("word end") for line in printed(path, capsys))


def test_further_lines_of_a_text_stand_below_its_first(tmp_path: Path, capsys: Captured) -> None:
    path = RecordingBuilder().turn("one", TextDone(text="first\nsecond")).write(tmp_path)
    lines = printed(path, capsys)
    first, second = (next(line for line in lines if line.endswith(text)) for text in ("first", "second"))
    assert first.index("first") == second.index("second")


def test_empty_lines_around_a_text_are_not_shown(tmp_path: Path, capsys: Captured) -> None:
    path = RecordingBuilder().turn("one", TextDone(text="\n\n first\n\nsecond \n")).write(tmp_path)
    lines = printed(path, capsys)
    at = next(number for number, line in enumerate(lines) if line.endswith("  text      first"))
    assert [line.strip() for line in lines[at + 1 : at + 3]] == ["", "second"]
    assert lines[at + 3].split()[1] == "detail", "the next entry follows"


def test_the_table_of_turns_has_a_row_for_each_turn(tmp_path: Path, capsys: Captured) -> None:
    tape = RecordingBuilder().at(1000).turn("one\ntwo", end=None).at(1250).sends(TextDelta(text="a")).at(3500).ends()
    recording = open_recording(tape.at(4000).turn("three", end=None).write(tmp_path))
    print_turns(recording, turn_figures(recording.lines()))
    _, head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == [
        "turn",
        "began",
        "duration",
        "first",
        "token",
        "deltas",
        "in",
        "out",
        "tools",
        "lost",
        "end",
        "input",
    ]
    assert first.split() == ["1", "0:01.000", "2.500", "s", "0.250", "s", "1", "0", "completed", "one", "two"]
    assert second.split() == ["2", "0:04.000", "0", "0", "still", "open", "three"]


@pytest.mark.parametrize(
    ("ms", "shown"), [(59_999.9, "0:59.999"), (3_599_999.9, "59:59.999"), (3_723_004, "1:02:03.004")]
)
def test_a_time_is_cut_to_milliseconds_and_never_shows_sixty_seconds(
    tmp_path: Path, capsys: Captured, ms: float, shown: str
) -> None:
    recording = open_recording(RecordingBuilder().at(ms).turn("one").write(tmp_path))
    print_turns(recording, turn_figures(recording.lines()))
    assert capsys.readouterr().out.splitlines()[-1].split()[1] == shown


def test_control_characters_in_a_list_of_sessions_are_escaped(tmp_path: Path, capsys: Captured) -> None:
    RecordingBuilder().turn("\x1b[2J gone").write(tmp_path)
    print_sessions(sessions_in(tmp_path))
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\\x1b[2J gone" in out
