from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from dragoman.gateway.ledger import Ledger
from dragoman.gateway.recording.format import Header, decode_header
from dragoman.gateway.recording.lines import UP, EventLine, FrameLine, Line
from dragoman.gateway.recording.pending import LINES_MAX, TapPoint
from dragoman.gateway.recording.places import Folder
from dragoman.gateway.recording.redaction import Redactor, rules
from dragoman.gateway.recording.session_recorder import FLUSH, RETRY, RecordingContext, SessionRecorder
from dragoman.gateway.recording.writer import OutputFile, Writer
from dragoman.mappings.canonical import Batch, Event, SessionState
from dragoman.mappings.canonical.commands import PauseTurn
from dragoman.mappings.canonical.events import Reply, TextDelta, TextDone, TurnAccepted, TurnEnded
from dragoman.mappings.canonical.values import Origin
from dragoman.mappings.dialect import Parts
from tests.gateway.recording.lines import HEADER, decoded

SECOND = 1_000_000_000


class Disk:
    """Plays the writer: `files` are what it took, `full` what it does not."""

    def __init__(self) -> None:
        self.place = Folder(Path("/rec"))
        self.files: dict[OutputFile, bytes] = {}
        self.finished: list[OutputFile] = []
        self.full = False

    def put(self, file: OutputFile, data: bytes, lines: int) -> bool:
        if self.full:
            return False
        self.files[file] = self.files.get(file, b"") + data
        file.size += len(data)
        file.lines += lines
        return True

    def flush(self) -> None:
        pass

    def finish(self, file: OutputFile) -> None:
        self.finished.append(file)

    def parts(self) -> list[tuple[Header, list[Line]]]:
        found = []
        for data in self.files.values():
            first, *rest = data.splitlines()
            found.append((decode_header(first), decoded(rest)))
        return found

    def lines(self) -> list[Line]:
        return [line for _, lines in self.parts() for line in lines]


class Scene:
    """A track, its disk, its clock and its one timer."""

    def __init__(self, rotate_bytes: int = 0, *, redacts: bool = False) -> None:
        self.disk = Disk()
        self.ledger = Ledger()
        self.now = 5 * SECOND
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.state = SessionState(id="s", seq=7, epoch=2)
        compiled = rules({}, (), window_bytes=65_536, window_micros=2_000_000)
        self.context = RecordingContext(
            cast("Writer", self.disk),
            self.ledger,
            self._later,
            rotate_bytes=rotate_bytes,
            redactor=(lambda: Redactor(compiled, b"salt")) if redacts else None,
        )
        self.track = SessionRecorder(self.context, HEADER, self.state, clock=lambda: 1234, monotonic=lambda: self.now)

    def _later(self, delay: float, ring: Callable[[], None]) -> Any:
        self.timers.append((delay, ring))
        scene = self

        class Timer:
            def cancel(self) -> None:
                scene.timers.clear()

        return Timer()

    def passes(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)
        timers, self.timers = self.timers, []
        for _, ring in timers:
            ring()

    def happens(self, *events: Event, origin: Origin = Origin(), turn: str = "t") -> None:  # noqa: B008  # frozen
        seq = self.state.seq
        batch = Batch(session="s", epoch=2, first_seq=seq, events=list(events), turn=turn, origin=origin, at=99)
        self.track.leave(self.track.batch(batch))
        self.state.seq += len(events)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def seqs(lines: Sequence[Line]) -> list[int]:
    return [line.seq for line in lines]


# -- lines ----------------------------------------------------------------------------------------------


def test_each_event_of_a_batch_is_a_line_with_its_own_cursor_and_the_batch_s_time(scene: Scene) -> None:
    scene.now += 1_500_000
    scene.happens(TextDelta(text="a"), TextDelta(text="b"), origin=Origin(link="l", request="r"))
    scene.track.close()
    first, second = scene.disk.lines()
    assert first == EventLine(
        seq=1, t=1500, cursor="2:7", event=TextDelta(text="a"), turn="t", origin=Origin(link="l", request="r"), at=99
    )
    assert isinstance(second, EventLine)
    assert (second.seq, second.t, second.cursor) == (2, 1500, "2:8")


def test_frames_commands_and_answers_share_one_count(scene: Scene) -> None:
    scene.track.frames(TapPoint("smooth-1", "receive", "smooth"), [b"a", b"b"])
    scene.track.command("smooth-1", PauseTurn(request="r"))
    scene.track.answer("smooth-1", Reply(request="r"))
    scene.track.close()
    lines = scene.disk.lines()
    assert seqs(lines) == [1, 2, 3, 4]
    assert [line.text for line in lines[:2] if isinstance(line, FrameLine)] == ["a", "b"]
    command, answer = lines[2:]
    assert isinstance(command, EventLine)
    assert isinstance(answer, EventLine)
    assert (command.command, command.cursor, command.link) == (PauseTurn(request="r"), "2:7", "smooth-1")
    assert (answer.event, answer.cursor, answer.link) == (Reply(request="r"), "2:7", "smooth-1")


def test_the_header_tells_when_the_session_began(scene: Scene) -> None:
    scene.happens(TextDelta(text="a"))
    scene.track.close()
    ((header, _),) = scene.disk.parts()
    assert (header.session, header.started_at, header.part, header.seq, header.lost) == ("s", 1234, 0, 1, 0)


def test_nothing_happened_and_no_file_is_made(scene: Scene) -> None:
    scene.track.close()
    assert not scene.disk.files
    assert not scene.disk.finished


def test_what_happens_is_given_away_after_one_short_while(scene: Scene) -> None:
    scene.happens(TextDelta(text="a"))
    scene.happens(TextDelta(text="b"))
    assert [delay for delay, _ in scene.timers] == [FLUSH]
    assert not scene.disk.files
    scene.passes(FLUSH)
    assert len(scene.disk.lines()) == 2
    assert not scene.timers
    scene.happens(TextDelta(text="c"))
    scene.passes(FLUSH)
    assert seqs(scene.disk.lines()) == [1, 2, 3]


def test_a_burst_is_given_away_before_the_while_is_over(scene: Scene) -> None:
    scene.happens(*[TextDelta(text="a")] * LINES_MAX)
    assert len(scene.disk.lines()) == LINES_MAX


def test_what_comes_after_the_end_is_no_part_of_it(scene: Scene) -> None:
    scene.happens(TextDelta(text="a"))
    scene.track.close()
    scene.happens(TextDelta(text="b"))
    scene.passes(FLUSH)
    assert seqs(scene.disk.lines()) == [1]
    assert len(scene.disk.finished) == 1


def test_what_stands_behind_a_text_that_streams_waits_as_long_as_its_begin_or_until_it_ends() -> None:
    scene = Scene(redacts=True)
    scene.happens(TextDelta(text="a"))
    ((due, _),) = scene.timers
    assert due == 1.5  # for three quarters of the window what streams is noted and no more
    scene.happens(TextDelta(text="b"))
    scene.track.frames(TapPoint(UP, "receive", "pod"), [b"{}"])
    assert [delay for delay, _ in scene.timers] == [due]
    assert not scene.disk.files
    scene.happens(TextDone(text="ab"))
    assert [delay for delay, _ in scene.timers] == [due, FLUSH]
    scene.passes(FLUSH)
    assert seqs(scene.disk.lines()) == [1, 2, 3, 4]


def test_a_text_that_streams_on_leaves_when_its_window_is_over() -> None:
    scene = Scene(redacts=True)
    scene.happens(TextDelta(text="a"))
    scene.passes(1.0)
    scene.happens(TextDelta(text="b"))
    scene.passes(0.5)
    assert not scene.disk.files
    scene.passes(FLUSH)
    assert seqs(scene.disk.lines()) == [1, 2]


def test_what_may_become_a_secret_leaves_when_the_window_is_over() -> None:
    scene = Scene(redacts=True)
    scene.happens(TextDelta(text="a"))
    scene.happens(TextDelta(text=" password: hun"))
    scene.passes(1.5)
    scene.passes(FLUSH)
    assert not scene.disk.files
    ((due, _),) = scene.timers
    assert 0.5 - 4 * FLUSH <= due < 0.5
    scene.passes(due)
    scene.passes(FLUSH)
    assert seqs(scene.disk.lines()) == [1, 2]


def test_what_is_noted_is_bounded_by_its_size_too(scene: Scene) -> None:
    for frames in ([b"x" * 700_000], [b"x" * 200_000] * 2, [Parts("rpc", b"", (b"", b"x" * 1_100_000))]):
        scene.track.frames(TapPoint(UP, "receive", "pod"), frames)
    assert seqs(scene.disk.lines()) == [1, 2, 3, 4]


# -- whose frames are recorded ----------------------------------------------------------------------------


def test_the_actor_is_who_asked_last_and_while_a_turn_is_open_whose_turn_it_is(scene: Scene) -> None:
    actors: list[str] = []
    steps: tuple[Callable[[], None], ...] = (
        lambda: scene.track.command("a", PauseTurn()),
        lambda: scene.track.command("b", PauseTurn()),
        lambda: scene.track.command(UP, PauseTurn()),
        lambda: scene.happens(TurnAccepted(), origin=Origin(link="a")),
        lambda: scene.track.command("b", PauseTurn()),
        lambda: scene.happens(TurnEnded(end="completed")),
        lambda: scene.track.command("b", PauseTurn()),
    )
    for step in steps:
        step()
        actors.append(scene.track.actor)
    assert actors == ["a", "b", "b", "a", "a", "a", "b"]


# -- parts --------------------------------------------------------------------------------------------------


def test_a_file_that_is_large_enough_is_followed_by_a_further_part() -> None:
    scene = Scene(rotate_bytes=2000)
    for _ in range(40):
        scene.happens(TextDelta(text="x" * 100))
        scene.passes(FLUSH)
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
        scene.passes(FLUSH)
    assert [names_of(file) for file in scene.disk.files] == ["19700101T000000Z-s.jsonl", "19700101T000000Z-s.1.jsonl"]


# -- not recording --------------------------------------------------------------------------------------------


def test_a_full_disk_is_said_once_counted_and_tried_again_later(scene: Scene) -> None:
    scene.happens(TextDelta(text="a"))
    scene.passes(FLUSH)
    (file,) = scene.disk.files
    file.lines = 0  # the header was written, the line was not
    with capture_logs() as logs:
        scene.track._failed(file, OSError(28, "No space left on device"))
        for _ in range(3):
            scene.happens(TextDelta(text="b"))
            scene.passes(FLUSH)
    (said,) = [entry for entry in logs if entry["log_level"] == "error"]
    assert "NOT RECORDING" in said["event"]
    assert "No space left" in said["cause"]
    assert scene.ledger.counters["recordings_failed"] == 1
    assert scene.ledger.counters["recording_lines_lost"] == 4
    scene.passes(RETRY)
    scene.happens(TextDelta(text="c"))
    scene.track.close()
    header, (line,) = scene.disk.parts()[1]
    assert (header.part, header.lost, header.seq, line.seq) == (1, 4, 5, 5)


def test_a_file_that_never_was_is_no_part(scene: Scene) -> None:
    scene.happens(TextDelta(text="a"))
    scene.passes(FLUSH)
    (file,) = scene.disk.files
    del scene.disk.files[file]
    file.size = file.lines = 0
    scene.track._failed(file, OSError(13, "Permission denied"))
    scene.passes(RETRY)
    scene.happens(TextDelta(text="b"))
    scene.track.close()
    ((header, lines),) = scene.disk.parts()
    assert (header.part, header.lost, seqs(lines)) == (0, 1, [2])


def test_lines_that_are_lost_twice_are_told_by_the_part_that_follows(scene: Scene) -> None:
    for _ in range(2):
        scene.happens(TextDelta(text="a"))
        scene.passes(FLUSH)
        file = next(reversed(scene.disk.files))
        del scene.disk.files[file]
        file.size = file.lines = 0
        scene.track._failed(file, OSError(28, "full"))
        scene.passes(RETRY)
    scene.happens(TextDelta(text="c"))
    scene.track.close()
    ((header, _),) = scene.disk.parts()
    assert header.lost == 2
    assert scene.ledger.counters["recording_lines_lost"] == 2


def test_what_one_part_told_the_next_does_not_tell_again(scene: Scene) -> None:
    for _ in range(2):
        scene.happens(TextDelta(text="a"))
        scene.passes(FLUSH)
        file = next(reversed(scene.disk.files))
        file.lines = 0
        scene.track._failed(file, OSError(28, "full"))
        scene.passes(RETRY)
    scene.happens(TextDelta(text="c"))
    scene.track.close()
    assert [header.lost for header, _ in scene.disk.parts()] == [0, 1, 1]


def test_a_queue_that_is_full_is_not_recording_too(scene: Scene) -> None:
    scene.happens(TextDelta(text="a"))
    scene.passes(FLUSH)
    scene.disk.full = True
    scene.happens(TextDelta(text="b"))
    with capture_logs() as logs:
        scene.passes(FLUSH)
    assert [entry["log_level"] for entry in logs] == [logging.getLevelName(logging.ERROR).lower()]
    assert scene.ledger.counters["recordings_overflowed"] == 1
    scene.disk.full = False
    scene.passes(RETRY)
    scene.happens(TextDelta(text="c"))
    scene.track.close()
    (first, lines), (second, more) = scene.disk.parts()
    assert (seqs(lines), seqs(more)) == ([1], [3])
    assert (first.lost, second.lost) == (0, 1)
