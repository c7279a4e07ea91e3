from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from dragoman.gateway.recording.lines import Line
from dragoman.gateway.recording.parts import RETRY
from dragoman.gateway.recording.places import OneFile
from dragoman.gateway.recording.writer import OutputFile
from dragoman.mappings.canonical.events import Alert, StatusChanged, TextDelta, TurnAccepted
from tests.gateway.recording.recorded_session import Scene


@pytest.fixture
def scene() -> Scene:
    return Scene()


def seqs(lines: Sequence[Line]) -> list[int]:
    return [line.seq for line in lines]


# -- parts --------------------------------------------------------------------------------------------------


def test_a_large_file_is_followed_by_a_further_part() -> None:
    scene = Scene(rotate_bytes=2000)
    for _ in range(40):
        scene.happens(TextDelta(text="x" * 100))
        scene.flushes()
    scene.track.close()
    parts = scene.disk.parts()
    assert len(parts) > 2
    assert [header.part for header, _ in parts] == list(range(len(parts)))
    assert [header.seq for header, _ in parts] == [lines[0].seq for _, lines in parts]
    assert {header.started_at for header, _ in parts} == {1234}
    assert seqs(scene.disk.lines()) == list(range(1, 41))
    assert len(set(scene.disk.finished)) == len(parts)


def names_of(file: OutputFile) -> str:
    found: Iterator[Path] = file.names()
    return next(found).name


def test_parts_have_names_of_their_own() -> None:
    scene = Scene(rotate_bytes=1)
    for _ in range(2):
        scene.happens(TextDelta(text="x"))
        scene.flushes()
    assert [names_of(file) for file in scene.disk.files] == ["19700101T000000Z-s.jsonl", "19700101T000000Z-s.1.jsonl"]


# -- one file for the first session with an input --------------------------------------------------------------


def test_items_before_the_first_input_wait_for_it(tmp_path: Path) -> None:
    scene = Scene(place=OneFile(tmp_path / "out.jsonl"))
    scene.happens(StatusChanged(status="idle"))
    scene.flushes()
    assert scene.disk.files == {}
    scene.happens(TurnAccepted(request="r"))
    scene.flushes()
    assert seqs(scene.disk.lines()) == [1, 2]
    assert [names_of(file) for file in scene.disk.files] == ["out.jsonl"]


def test_a_session_without_an_input_is_written_at_its_end(tmp_path: Path) -> None:
    scene = Scene(place=OneFile(tmp_path / "out.jsonl"))
    scene.happens(StatusChanged(status="idle"))
    scene.track.close()
    assert seqs(scene.disk.lines()) == [1]
    assert [names_of(file) for file in scene.disk.files] == ["out-2.jsonl"]


def test_items_that_wait_for_an_input_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.gateway.recording.parts.EARLY_MAX", 2000)
    scene = Scene(place=OneFile(tmp_path / "out.jsonl"))
    for _ in range(40):
        scene.happens(StatusChanged(status="idle"))
        scene.flushes()
    assert seqs(scene.disk.lines()) == list(range(1, 41))


def test_items_that_wait_for_an_input_count_as_memory(tmp_path: Path) -> None:
    scene = Scene(place=OneFile(tmp_path / "out.jsonl"))
    before = scene.memory.used
    scene.happens(Alert(level="warn", source="s", text="x" * 100_000))
    scene.flushes()
    assert scene.memory.used > before + 100_000
    scene.happens(TurnAccepted(request="r"))
    scene.flushes()
    assert scene.memory.used == before


def test_items_that_wait_for_an_input_are_written_when_memory_is_short(tmp_path: Path) -> None:
    scene = Scene(place=OneFile(tmp_path / "out.jsonl"))
    before = scene.memory.used
    scene.memory.limit = before + 100_000
    for size in (50_000, 60_000):
        assert not scene.disk.files
        scene.happens(Alert(level="warn", source="s", text="x" * size))
        scene.flushes()
    assert seqs(scene.disk.lines()) == [1, 2]
    assert scene.memory.used == before


# -- not recording --------------------------------------------------------------------------------------------


def test_a_full_disk_is_logged_once_counted_and_tried_again_later(scene: Scene) -> None:
    scene.happens(TextDelta(text="a"))
    scene.flushes()
    (file,) = scene.disk.files
    file.lines = 0  # the header was written, the line was not
    with capture_logs() as logs:
        file.failed(file, OSError(28, "No space left on device"))
        for _ in range(3):
            scene.happens(TextDelta(text="b"))
            scene.flushes()
    (said,) = [entry for entry in logs if entry["log_level"] == "error"]
    assert "NOT RECORDED" in said["event"]
    assert "No space left" in said["cause"]
    assert scene.ledger.counters["recordings_failed"] == 1
    assert scene.ledger.counters["recording_lines_lost"] == 4
    scene.passes(RETRY)
    scene.happens(TextDelta(text="c"))
    scene.track.close()
    header, (line,) = scene.disk.parts()[1]
    assert (header.part, header.lost, header.seq, line.seq) == (1, 4, 5, 5)


def test_a_file_that_was_never_created_is_not_counted_as_a_part(scene: Scene) -> None:
    scene.happens(TextDelta(text="a"))
    scene.flushes()
    (file,) = scene.disk.files
    del scene.disk.files[file]
    file.size = file.lines = 0
    file.failed(file, OSError(13, "Permission denied"))
    scene.passes(RETRY)
    scene.happens(TextDelta(text="b"))
    scene.track.close()
    ((header, lines),) = scene.disk.parts()
    assert (header.part, header.lost, seqs(lines)) == (0, 1, [2])


def test_the_next_header_counts_items_that_were_lost_twice(scene: Scene) -> None:
    for _ in range(2):
        scene.happens(TextDelta(text="a"))
        scene.flushes()
        file = next(reversed(scene.disk.files))
        del scene.disk.files[file]
        file.size = file.lines = 0
        file.failed(file, OSError(28, "full"))
        scene.passes(RETRY)
    scene.happens(TextDelta(text="c"))
    scene.track.close()
    ((header, _),) = scene.disk.parts()
    assert header.lost == 2
    assert scene.ledger.counters["recording_lines_lost"] == 2


def test_a_header_does_not_repeat_the_lost_items_of_the_part_before(scene: Scene) -> None:
    for _ in range(2):
        scene.happens(TextDelta(text="a"))
        scene.flushes()
        file = next(reversed(scene.disk.files))
        file.lines = 0
        file.failed(file, OSError(28, "full"))
        scene.passes(RETRY)
    scene.happens(TextDelta(text="c"))
    scene.track.close()
    assert [header.lost for header, _ in scene.disk.parts()] == [0, 1, 1]


def test_a_full_queue_stops_recording(scene: Scene) -> None:
    scene.happens(TextDelta(text="a"))
    scene.flushes()
    scene.disk.full = True
    scene.happens(TextDelta(text="b"))
    with capture_logs() as logs:
        scene.flushes()
    assert [entry["log_level"] for entry in logs] == [logging.getLevelName(logging.ERROR).lower()]
    assert scene.ledger.counters["recordings_overflowed"] == 1
    scene.disk.full = False
    scene.passes(RETRY)
    scene.happens(TextDelta(text="c"))
    scene.track.close()
    (first, lines), (second, more) = scene.disk.parts()
    assert (seqs(lines), seqs(more)) == ([1], [3])
    assert (first.lost, second.lost) == (0, 1)
