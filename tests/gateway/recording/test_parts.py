from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from dragoman.gateway.recording.format import Line
from dragoman.gateway.recording.parts import RETRY
from dragoman.gateway.recording.places import OneFile
from dragoman.gateway.recording.reader import recordings_in
from dragoman.gateway.recording.writer import OutputFile
from dragoman.mappings.canonical.events import Alert, StatusChanged, TextDelta, TurnAccepted
from tests.gateway.recording.recorded_session import RecorderHarness


@pytest.fixture
def harness() -> RecorderHarness:
    return RecorderHarness()


def seqs(lines: Sequence[Line]) -> list[int]:
    return [line.seq for line in lines]


# -- parts --------------------------------------------------------------------------------------------------


def test_a_large_file_is_followed_by_a_further_part() -> None:
    harness = RecorderHarness(rotate_bytes=2000)
    for _ in range(40):
        harness.happens(TextDelta(text="x" * 100))
        harness.flushes()
    harness.recorder.close()
    parts = harness.disk.parts()
    assert len(parts) > 2
    assert [header.part for header, _ in parts] == list(range(len(parts)))
    assert [header.seq for header, _ in parts] == [lines[0].seq for _, lines in parts]
    assert {header.started_at for header, _ in parts} == {1234}
    assert seqs(harness.disk.lines()) == list(range(1, 41))
    assert len(set(harness.disk.finished)) == len(parts)


def names_of(file: OutputFile) -> str:
    found: Iterator[Path] = file.names()
    return next(found).name


def test_parts_have_names_of_their_own() -> None:
    harness = RecorderHarness(rotate_bytes=1)
    for _ in range(2):
        harness.writes_text("x")
    assert [names_of(file) for file in harness.disk.files] == ["19700101T000000Z-s.jsonl", "19700101T000000Z-s.1.jsonl"]


def test_a_session_that_gets_another_id_keeps_the_first_one_in_all_parts_of_its_recording(tmp_path: Path) -> None:
    harness = RecorderHarness(rotate_bytes=1)
    harness.writes_text("x")
    harness.recorder.name("named-by-the-backend")
    harness.writes_text("y")
    harness.recorder.close()
    for file, data in harness.disk.files.items():
        (tmp_path / names_of(file)).write_bytes(data)
    (recording,) = recordings_in(tmp_path)
    assert [line.event for line in recording.events()] == [TextDelta(text="x"), TextDelta(text="y")]


# -- one file for the first session with an input --------------------------------------------------------------


def test_items_before_the_first_input_wait_for_it(tmp_path: Path) -> None:
    harness = RecorderHarness(place=OneFile(tmp_path / "out.jsonl"))
    harness.happens(StatusChanged(status="idle"))
    harness.flushes()
    assert harness.disk.files == {}
    harness.happens(TurnAccepted(request="r"))
    harness.flushes()
    assert seqs(harness.disk.lines()) == [1, 2]
    assert [names_of(file) for file in harness.disk.files] == ["out.jsonl"]


def test_a_session_without_an_input_is_written_at_its_end(tmp_path: Path) -> None:
    harness = RecorderHarness(place=OneFile(tmp_path / "out.jsonl"))
    harness.happens(StatusChanged(status="idle"))
    harness.recorder.close()
    assert seqs(harness.disk.lines()) == [1]
    assert [names_of(file) for file in harness.disk.files] == ["out-2.jsonl"]


def test_items_that_wait_for_an_input_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.gateway.recording.parts.EARLY_MAX", 2000)
    harness = RecorderHarness(place=OneFile(tmp_path / "out.jsonl"))
    for _ in range(40):
        harness.happens(StatusChanged(status="idle"))
        harness.flushes()
    assert seqs(harness.disk.lines()) == list(range(1, 41))


def test_items_that_wait_for_an_input_count_as_memory(tmp_path: Path) -> None:
    harness = RecorderHarness(place=OneFile(tmp_path / "out.jsonl"))
    before = harness.memory.used
    harness.happens(Alert(level="warn", source="s", text="x" * 100_000))
    harness.flushes()
    assert harness.memory.used > before + 100_000
    harness.happens(TurnAccepted(request="r"))
    harness.flushes()
    assert harness.memory.used == before


def test_items_that_wait_for_an_input_are_written_when_memory_is_short(tmp_path: Path) -> None:
    harness = RecorderHarness(place=OneFile(tmp_path / "out.jsonl"))
    before = harness.memory.used
    harness.memory.limit = before + 100_000
    for size in (50_000, 60_000):
        assert not harness.disk.files
        harness.happens(Alert(level="warn", source="s", text="x" * size))
        harness.flushes()
    assert seqs(harness.disk.lines()) == [1, 2]
    assert harness.memory.used == before


# -- not recording --------------------------------------------------------------------------------------------


def test_a_full_disk_is_logged_once_counted_and_tried_again_later(harness: RecorderHarness) -> None:
    harness.writes_text("a")
    (file,) = harness.disk.files
    file.lines = 0  # the header was written, the line was not
    with capture_logs() as logs:
        file.failed(file, OSError(28, "No space left on device"))
        for _ in range(3):
            harness.writes_text("b")
    (said,) = [entry for entry in logs if entry["log_level"] == "error"]
    assert "is not recorded" in said["event"]
    assert "No space left" in said["cause"]
    assert harness.ledger.counters["recordings_failed"] == 1
    assert harness.ledger.counters["recording_items_lost"] == 4
    harness.passes(RETRY)
    harness.happens(TextDelta(text="c"))
    harness.recorder.close()
    header, (line,) = harness.disk.parts()[1]
    assert (header.part, header.lost, header.seq, line.seq) == (1, 4, 5, 5)


def test_a_file_that_was_never_created_is_not_counted_as_a_part(harness: RecorderHarness) -> None:
    harness.writes_text("a")
    (file,) = harness.disk.files
    del harness.disk.files[file]
    file.size = file.lines = 0
    file.failed(file, OSError(13, "Permission denied"))
    harness.passes(RETRY)
    harness.happens(TextDelta(text="b"))
    harness.recorder.close()
    ((header, lines),) = harness.disk.parts()
    assert (header.part, header.lost, seqs(lines)) == (0, 1, [2])


def test_a_part_that_fails_after_the_next_one_has_begun_is_logged_and_the_next_one_goes_on() -> None:
    harness = RecorderHarness(rotate_bytes=1)
    for text in "ab":
        harness.happens(TextDelta(text=text))
        harness.flushes()
    (first, _) = harness.disk.files
    with capture_logs() as logs:
        first.failed(first, OSError(28, "No space left on device"))
    assert [(line["event"], line["log_level"]) for line in logs] == [
        ("the end of a part of a recording is lost", "error")
    ]
    assert harness.ledger.counters["recordings_failed"] == 1
    harness.happens(TextDelta(text="c"))
    harness.recorder.close()
    assert seqs(harness.disk.lines()) == [1, 2, 3]


def test_the_next_header_counts_items_that_were_lost_twice(harness: RecorderHarness) -> None:
    for _ in range(2):
        harness.writes_text("a")
        file = next(reversed(harness.disk.files))
        del harness.disk.files[file]
        file.size = file.lines = 0
        file.failed(file, OSError(28, "full"))
        harness.passes(RETRY)
    harness.happens(TextDelta(text="c"))
    harness.recorder.close()
    ((header, _),) = harness.disk.parts()
    assert header.lost == 2
    assert harness.ledger.counters["recording_items_lost"] == 2


def test_a_header_does_not_repeat_the_lost_items_of_the_part_before(harness: RecorderHarness) -> None:
    for _ in range(2):
        harness.writes_text("a")
        file = next(reversed(harness.disk.files))
        file.lines = 0
        file.failed(file, OSError(28, "full"))
        harness.passes(RETRY)
    harness.happens(TextDelta(text="c"))
    harness.recorder.close()
    assert [header.lost for header, _ in harness.disk.parts()] == [0, 1, 1]


def test_a_full_queue_stops_recording(harness: RecorderHarness) -> None:
    harness.writes_text("a")
    harness.disk.full = True
    harness.happens(TextDelta(text="b"))
    with capture_logs() as logs:
        harness.flushes()
    assert [entry["log_level"] for entry in logs] == [logging.getLevelName(logging.ERROR).lower()]
    assert harness.ledger.counters["recordings_overflowed"] == 1
    harness.disk.full = False
    harness.passes(RETRY)
    harness.happens(TextDelta(text="c"))
    harness.recorder.close()
    (first, lines), (second, more) = harness.disk.parts()
    assert (seqs(lines), seqs(more)) == ([1], [3])
    assert (first.lost, second.lost) == (0, 1)
