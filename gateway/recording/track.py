"""A track: one session's lines on their way into its file.

It numbers and times them, gathers them for at most FLUSH and gives them to the writer in one piece. When the writer
cannot take or keep them, the session is *not recorded*: that is said once as an error, counted line by line, and tried
again after RETRY with a further part of the recording, whose header tells how much is missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, Protocol

import structlog
from msgspec import structs

from gateway.ledger import Ledger
from gateway.recording.format import UP, EventLine, Header, Line, encode, encode_lines, frame_line
from gateway.recording.redaction import Ledger as Redacted
from gateway.recording.redaction import Redactor
from gateway.recording.writer import File, Writer
from gateway.timers import Later, Timer
from mappings.canonical import Batch, Command, Event, SessionState
from mappings.canonical.events import ReasoningDelta, TextDelta, ToolOutputDelta, TurnAccepted, TurnEnded
from mappings.dialect import Frame

__all__ = ["FLUSH", "RETRY", "Desk", "Speaking", "Track"]

FLUSH = 0.02  # seconds: with the writer's round, what happened is on the disk within 50 ms
HELD = 0.25  # seconds: what stands behind a text that streams waits for it anyway, and many lines at once cost less
LINES_MAX = 512  # lines that are gathered: in a burst that is half a millisecond of encoding
RETRY = 30.0  # seconds until a disk that was full is asked again

STREAMED = frozenset({TextDelta, ReasoningDelta, ToolOutputDelta})
"""What ends no text that streams."""

log = structlog.get_logger("dragoman.recording")


class Speaking(Protocol):
    """A link that said something."""

    def reaches(self, track: Track) -> None:
        """What it said is for the session of this track."""


class Desk:
    """What all tracks of a gateway share: the writer, counters, and the one timer that flushes them."""

    def __init__(
        self, writer: Writer, ledger: Ledger, later: Later, *, rotate_bytes: int,
        redactor: Callable[[], Redactor] | None = None,
    ) -> None:  # fmt: skip
        self.writer = writer
        self.redactor = redactor
        self.ledger = ledger
        self.rotate_bytes = rotate_bytes
        self.later = later
        self._timers: dict[float, Timer] = {}
        self._waiting: dict[float, dict[Track, None]] = {FLUSH: {}, HELD: {}}
        self.current: Track | None = None
        """The session that acts: what goes out meanwhile is its own."""
        self.speaking: Speaking | None = None
        """The link whose frames are being acted on."""

    def wants_flush(self, track: Track, delay: float) -> None:
        """`track` has lines; they are to go within `delay`: FLUSH or HELD."""
        self._waiting[delay][track] = None
        if delay not in self._timers:
            self._timers[delay] = self.later(delay, partial(self._flush, delay))

    def _flush(self, delay: float) -> None:
        """Give the writer what they have."""
        del self._timers[delay]
        waiting, self._waiting[delay] = self._waiting[delay], {}
        for track in waiting:
            track.flush()
        self.writer.go()


class Track:
    """The lines of one session, or with no `state` those of a route that belong to none.

    `actor` is the client's link whose frames belong to the recording when not all do: the one whose turn is open, else
    the one that asked last.
    """

    def __init__(
        self, desk: Desk, header: Header, state: SessionState | None = None, *, clock: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], int] = time.monotonic_ns,
    ) -> None:  # fmt: skip
        self.actor = ""
        self._desk = desk
        self._header = structs.replace(header, started_at=clock())
        self._state = state
        self._monotonic = monotonic
        self._start = monotonic()
        self._seq = 0
        self._turn_open = False
        self._turn_ended = False
        self._lines: list[Line] = []
        self._redactor = desk.redactor() if desk.redactor is not None else None
        self._look: Timer | None = None
        self._part = 0
        self._file: File | None = None
        self._given = 0  # bytes to this file
        self._given_lines = 0
        self._lost = 0
        self._told = 0  # of them, as the header of this file tells
        self._again_at = 0
        self._closed = False

    # -- what happens ----------------------------------------------------------------------------------

    def enter(self) -> Track | None:
        """This session acts from here on, and what a link just said was for it; who acted before."""
        desk = self._desk
        before, desk.current = desk.current, self
        if desk.speaking is not None:
            desk.speaking.reaches(self)
        return before

    def leave(self, before: Track | None) -> None:
        """It has acted."""
        self._desk.current = before

    def batch(self, batch: Batch) -> None:
        """These events were added to the session's log."""
        if self._turn_ended:
            self._turn_open = self._turn_ended = False
        t, epoch, at = self._now(), batch.epoch, batch.at
        turn, origin, position, seq = batch.turn, batch.origin, batch.first_seq, self._seq
        lines = self._lines
        had = bool(lines)
        for event in batch.events:
            seq += 1
            lines.append(
                EventLine(seq=seq, t=t, cursor=f"{epoch}:{position}", event=event, turn=turn, origin=origin, at=at)
            )
            position += 1
        self._seq = seq
        if type(batch.events[0]) is TurnAccepted:
            self._turn_open, self.actor = True, origin.link
        if type(batch.events[-1]) is TurnEnded:
            self._turn_ended = True  # its last frames are still to be sent
        self._gathered(had, soon=not STREAMED.issuperset(map(type, batch.events)))

    def frames(self, link: str, dir: Literal["receive", "send"], dialect: str, frames: Sequence[Frame]) -> None:
        """These frames were received from `link`, or sent to it."""
        t, seq = self._now(), self._seq
        had = bool(self._lines)
        for frame in frames:
            seq += 1
            self._lines.append(frame_line(seq, t, link, dir, dialect, frame))
        self._seq = seq
        self._gathered(had)

    def command(self, link: str, command: Command) -> None:
        """A client asked this; from UP: the backend was asked this."""
        if link != UP:
            if self._turn_ended:
                self._turn_open = self._turn_ended = False
            if not self._turn_open:
                self.actor = link
        self._one(EventLine(seq=self._seq + 1, t=self._now(), cursor=self._cursor(), command=command, link=link))

    def answer(self, link: str, event: Event) -> None:
        """This event went to one link alone."""
        self._one(EventLine(seq=self._seq + 1, t=self._now(), cursor=self._cursor(), event=event, link=link))

    # -- on its way --------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Give the writer what was gathered."""
        lines, self._lines = self._lines, []
        if self._redactor is not None:
            lines = self._redacted(lines, partial(self._redactor.feed, lines, self._now()))
            self._look_again(self._redactor.due)
        self._write(lines)

    def _redacted(self, lines: list[Line], redact: Callable[[], list[Line]]) -> list[Line]:
        try:
            return redact()
        except Exception:  # it must neither stop traffic nor let a secret through
            log.exception("redaction failed", session=self._header.session)
            self._redactor = self._desk.redactor() if self._desk.redactor is not None else None
            if self._file is not None:
                self._desk.writer.finish(self._file)
            self._stop("redaction failed", len(lines))
            return []

    def _look_again(self, due: int | None) -> None:
        """What is held back leaves in time, whatever else happens."""
        if due is None or self._look is not None or self._closed:
            return
        self._look = self._desk.later(max((due - self._now()) / 1e6, FLUSH), self._looks)

    def _looks(self) -> None:
        self._look = None
        self.flush()

    def _write(self, lines: list[Line]) -> None:
        if not lines or self._closed:
            return
        if self._file is None and not self._begin(lines[0].seq):
            self._lose(len(lines))
            return
        self._give(encode_lines(lines), len(lines))

    def close(self) -> None:
        """The session is over."""
        self.flush()
        if self._redactor is not None:
            if self._look is not None:
                self._look.cancel()
            self._write(self._redacted([], self._redactor.finish))
            self._tell_redacted(self._redactor.ledger)
        if self._file is not None:
            self._desk.writer.finish(self._file)
        self._closed = True

    def _tell_redacted(self, redacted: Redacted) -> None:
        if redacted.total:
            self._desk.ledger.counters["secrets_redacted"] += redacted.total
            found = [f"{entry.kind} in {entry.place}: {entry.count}" for entry in redacted.entries()]
            log.info("secrets were left out of the recording", session=self._header.session, found=found)

    def _now(self) -> int:
        return (self._monotonic() - self._start) // 1000

    def _cursor(self) -> str:
        return f"{self._state.epoch}:{self._state.seq}" if self._state is not None else "0:0"

    def _one(self, line: EventLine) -> None:
        had = bool(self._lines)
        self._seq = line.seq
        self._lines.append(line)
        self._gathered(had)

    def _gathered(self, had: bool, *, soon: bool = False) -> None:
        """Lines were added to none, or to some that wait for the timer already; `soon` if a text may end with them."""
        if len(self._lines) >= LINES_MAX:
            self.flush()  # the timer finds nothing, or what comes meanwhile
        if soon or self._redactor is None or self._redactor.due is None:
            if soon or not had:
                self._desk.wants_flush(self, FLUSH)
        elif not had:
            self._desk.wants_flush(self, HELD)

    def _begin(self, seq: int) -> bool:
        """A file for the next part; False while it would be too early."""
        if self._again_at and self._monotonic() < self._again_at:
            return False
        header = structs.replace(self._header, part=self._part, seq=seq, lost=self._lost)
        self._file = File(partial(self._names, self._part), self._failed)
        self._given = self._given_lines = 0
        self._part += 1
        self._told, self._again_at = self._lost, 0
        self._give(encode(header) + b"\n", 0)
        return self._file is not None

    def _names(self, part: int) -> Iterator[Path]:
        header = self._header
        name = header.session or f"route-{header.route}"
        return self._desk.writer.place.names(name, header.started_at, part)

    def _give(self, data: bytes, count: int) -> None:
        file = self._file
        if file is None:
            return
        if not self._desk.writer.put(file, data, count):
            self._desk.writer.finish(file)
            self._desk.ledger.counters["recordings_overflowed"] += 1
            self._stop("the disk does not keep up", count)
            return
        self._given += len(data)
        self._given_lines += count
        if 0 < self._desk.rotate_bytes <= self._given:
            self._desk.writer.finish(file)
            self._file, self._lost, self._told = None, 0, 0

    def _failed(self, file: File, error: OSError) -> None:
        """The writer could not write it."""
        if file is not self._file:
            self._desk.ledger.counters["recordings_failed"] += 1
            log.error("the end of a part of a recording is lost", session=self._header.session, cause=str(error))
            return
        if not file.size:  # it never was
            self._part -= 1
            self._told = 0
        self._stop(str(error), self._given_lines - file.lines)

    def _stop(self, cause: str, lines: int) -> None:
        self._file = None
        self._again_at = self._monotonic() + int(RETRY * 1e9)
        self._lost, self._told = self._lost - self._told, 0
        self._lose(lines)
        self._desk.ledger.counters["recordings_failed"] += 1
        log.error(
            "NOT RECORDING this session, trying again later",
            session=self._header.session, cause=cause, seconds=RETRY, traffic="goes on",
        )  # fmt: skip

    def _lose(self, lines: int) -> None:
        self._lost += lines
        self._desk.ledger.counters["recording_lines_lost"] += lines
