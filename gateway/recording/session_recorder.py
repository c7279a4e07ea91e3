"""The recorder of one session: it gathers steps, redacts and encodes them, and gives them to the writer.

Steps are gathered for at most FLUSH. While a text streams they are gathered for three quarters of the time that the
redactor may hold the text back. Then all of them are redacted, encoded and given to the writer in one piece. When the
writer cannot take or keep them, the session is *not recorded*: one error says so, the lost items are counted, and after
RETRY a further part of the recording begins, whose header says how many items are missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol, get_args

import structlog
from msgspec import structs

from dragoman.gateway.ledger import Ledger
from dragoman.gateway.recording.format import Header, Item, encode, encode_lines, packed
from dragoman.gateway.recording.lines import UP, EventLine
from dragoman.gateway.recording.pending import FramesNote, Note, PendingSteps, TapPoint
from dragoman.gateway.recording.redaction import FindingCounts, Redactor
from dragoman.gateway.recording.writer import OutputFile, Writer
from dragoman.gateway.timers import Later, Timer
from dragoman.mappings.canonical import Batch, Command, Event, SessionState
from dragoman.mappings.canonical.events import TurnAccepted, TurnEnded
from dragoman.mappings.dialect import Frame

__all__ = ["FLUSH", "RETRY", "RecordingContext", "SessionRecorder", "Speaking"]

FLUSH = 0.02  # seconds: with the writer's round, what happened is on the disk within 50 ms
MARGIN = int(2 * FLUSH * 1e6)  # µs until a timer has rung and what it wants has been flushed
RETRY = 30.0  # seconds until a disk that was full is asked again

STREAMED = frozenset(kind for kind in get_args(Event) if kind.streamed)
"""Events that do not end a text that streams."""

log = structlog.get_logger("dragoman.recording")


class Speaking(Protocol):
    """A link whose frames are being acted on."""

    def reaches(self, track: SessionRecorder) -> None:
        """Record its frames and their command in this session."""


class RecordingContext:
    """The writer, the counters and the flush timer that all recorders of a gateway share."""

    def __init__(
        self,
        writer: Writer,
        ledger: Ledger,
        later: Later,
        *,
        rotate_bytes: int,
        redactor: Callable[[], Redactor] | None = None,
    ) -> None:
        self.writer = writer
        self.redactor = redactor
        self.ledger = ledger
        self.rotate_bytes = rotate_bytes
        self.later = later
        self._timer: Timer | None = None
        self._waiting: dict[SessionRecorder, None] = {}
        self.current: SessionRecorder | None = None
        """The session that acts. Frames that are sent meanwhile belong to it."""
        self.speaking: Speaking | None = None
        """The link whose frames are being acted on, if its frames may belong to any session."""

    def wants_flush(self, track: SessionRecorder) -> None:
        """Flush this recorder within FLUSH."""
        self._waiting[track] = None
        if self._timer is None:
            self._timer = self.later(FLUSH, self._flush)

    def _flush(self) -> None:
        """Flush all recorders that asked for it."""
        self._timer = None
        waiting, self._waiting = self._waiting, {}
        for track in waiting:
            track.flush()
        self.writer.flush()


class SessionRecorder:
    """Record one session, or without `state` the items of a route that belong to no session.

    `actor` is the client's link whose frames are recorded if not those of all clients are: the link whose turn is open,
    else the one that gave the last command.
    """

    # Slots, because a token touches few cache lines then.
    __slots__ = (
        "_again_at",
        "_context",
        "_due",
        "_ends",
        "_file",
        "_given",
        "_given_lines",
        "_header",
        "_held",
        "_look",
        "_lost",
        "_monotonic",
        "_notes",
        "_part",
        "_redactor",
        "_start",
        "_state",
        "_t",
        "_told",
        "_turn_ended",
        "_turn_open",
        "_waits",
        "actor",
        "closed",
        "step",
    )

    def __init__(
        self,
        context: RecordingContext,
        header: Header,
        state: SessionState | None = None,
        *,
        clock: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.actor = ""
        self._context = context
        self._header = structs.replace(header, started_at=clock())
        self._state = state
        self._monotonic = monotonic
        self._start = monotonic()
        self._turn_open = False
        self._turn_ended = False
        self._notes = PendingSteps()
        self._t = -1  # of the last step, in µs
        self.step: list[Note] = []  # the notes of the step that is not over
        self._ends = False  # a text may have ended: what the redactor holds back can be written
        self._waits = False  # for the flush timer of the context
        self._due: int | None = None  # in µs: when the redactor must be called again, while it holds a text back
        self._redactor = context.redactor() if context.redactor is not None else None
        self._look: Timer | None = None
        self._part = 0
        self._file: OutputFile | None = None
        self._given = 0  # bytes to this file
        self._given_lines = 0
        self._lost = 0
        self._told = 0  # of them, those in the header of this file
        self._again_at = 0
        self._held = False  # the session has no id yet
        self.closed = False

    def hold(self) -> None:
        """Write nothing before `name`: the header and the file name need the id of the session."""
        self._held = True

    def name(self, session: str) -> None:
        """Set the id of the session and write what was noted."""
        self._header = structs.replace(self._header, session=session)
        self._held = False
        self._wants_flush()

    # -- what happens ----------------------------------------------------------------------------------

    def enter(self) -> SessionRecorder | None:
        """Make this the acting session, and assign the frames of the speaking link to it. Return who acted before."""
        context = self._context
        before, context.current = context.current, self
        if context.speaking is not None:
            context.speaking.reaches(self)
        return before

    def leave(self, before: SessionRecorder | None) -> None:
        """End what `enter` or `batch` began: `before` acts again."""
        self._context.current = before
        if before is not self:
            self.acted()

    def acted(self) -> None:
        """End the step: its frames, events and commands get one time. Flush at once if much is gathered."""
        step = self.step
        if not step:
            return
        self.step = []
        self._t = max((self._monotonic() - self._start) // 1000, self._t + 1)  # no two steps have one time
        much = self._notes.add(self._t, step)
        if not self._waits and (self._due is None or self._ends):
            self._plan(self._notes.streams and not self._ends)
        if much:
            self.flush()  # the timer finds nothing, or what comes meanwhile

    def batch(self, batch: Batch) -> SessionRecorder | None:
        """Record events that were added to the session's log, and make it act. Return who acted before."""
        context = self._context
        before, context.current = context.current, self
        if context.speaking is not None:
            context.speaking.reaches(self)
        if self._turn_ended:
            self._turn_open = self._turn_ended = False
        events = batch.events
        first, last = type(events[0]), type(events[-1])
        if first is TurnAccepted:
            self._turn_open, self.actor = True, batch.origin.link
        if last is TurnEnded:
            self._turn_ended = True  # its last frames are still to be sent
        if first not in STREAMED or (len(events) > 1 and not STREAMED.issuperset(map(type, events))):
            self._ends = True
        self.step.append(batch)
        return before

    def frames(self, tapped: TapPoint, frames: Sequence[Frame]) -> None:
        """Record frames that a link received or sent."""
        self.step.append(FramesNote(tapped, frames))
        if self._context.current is not self:
            self.acted()

    def command(self, link: str, command: Command) -> None:
        """Record a command of a client; with the link UP a command to the backend."""
        if link != UP:
            if self._turn_ended:
                self._turn_open = self._turn_ended = False
            if not self._turn_open:
                self.actor = link
        self._line(EventLine(seq=0, t=0, cursor=self._cursor(), command=command, link=link))

    def answer(self, link: str, event: Event) -> None:
        """Record an event that went to one link alone."""
        self._line(EventLine(seq=0, t=0, cursor=self._cursor(), event=event, link=link))

    def _line(self, line: EventLine) -> None:
        self.step.append(line)
        if self._context.current is not self:
            self.acted()

    # -- on its way --------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Redact and encode the gathered steps, and give them to the writer."""
        self._waits = self._ends = False
        if self._held:
            return
        redactor = self._redactor
        if redactor is None:
            self._write(self._notes.take())
            return
        now, streams = self._now(), self._notes.streams
        self._write(self._redacted(self._notes.count, lambda: redactor.feed(self._notes.take(), now + 2 * MARGIN)))
        since, self._due = redactor.since, None
        if since is not None:
            self._due = since + redactor.window - MARGIN
            self._look_again()
        elif streams:
            self._plan(streams)

    def _redacted(self, number: int, redact: Callable[[], list[Item]]) -> list[Item]:
        """Return what the redactor lets go. If it fails, stop recording; `number` items are lost."""
        try:
            return redact()
        except Exception:  # a failure must neither stop traffic nor let a secret pass
            log.exception("redaction failed", session=self._header.session)
            self._redactor = self._context.redactor() if self._context.redactor is not None else None
            if self._file is not None:
                self._context.writer.finish(self._file)
            self._stop("redaction failed", number)
            return []

    def _plan(self, streams: bool) -> None:
        """Delay flushing while text streams, so that it is redacted in larger pieces."""
        window = self._redactor.window if self._redactor is not None else 0
        if window and streams:
            self._due = self._now() + window * 3 // 4
            self._look_again()
        else:
            self._wants_flush()

    def _look_again(self) -> None:
        """Set the timer that flushes in time what the redactor holds back."""
        if self._due is None or self._look is not None or self.closed:
            return
        self._look = self._context.later(max((self._due - self._now()) / 1e6, FLUSH), self._looks)

    def _looks(self) -> None:
        self._look = None
        if self._due is not None and self._now() < self._due:
            self._look_again()  # that text was written meanwhile, and more came
        elif self._due is not None:
            self._wants_flush()

    def _write(self, lines: Sequence[Item]) -> None:
        if not lines or self.closed:
            return
        number = lines[-1].seq + lines[-1].count - lines[0].seq
        if self._file is None and not self._begin(lines[0].seq):
            self._lose(number)
            return
        self._give(encode_lines(packed(lines)), number)

    def close(self) -> None:
        """Write all that is left, and close the file."""
        self._held = False
        self.acted()
        self.flush()
        if self._redactor is not None:
            if self._look is not None:
                self._look.cancel()
            self._write(self._redacted(0, self._redactor.finish))
            self._tell_redacted(self._redactor.ledger)
        if self._file is not None:
            self._context.writer.finish(self._file)
        self.closed = True

    def _tell_redacted(self, redacted: FindingCounts) -> None:
        if redacted.total:
            self._context.ledger.counters["secrets_redacted"] += redacted.total
            found = [f"{entry.kind} in {entry.place}: {entry.count}" for entry in redacted.entries()]
            log.info("secrets were left out of the recording", session=self._header.session, found=found)

    def _now(self) -> int:
        return (self._monotonic() - self._start) // 1000

    def _cursor(self) -> str:
        return f"{self._state.epoch}:{self._state.seq}" if self._state is not None else "0:0"

    def _wants_flush(self) -> None:
        if not self._waits:
            self._waits = True
            self._context.wants_flush(self)

    def _begin(self, seq: int) -> bool:
        """Open the file of the next part. Return False while it is too early to try again."""
        if self._again_at and self._monotonic() < self._again_at:
            return False
        header = structs.replace(self._header, part=self._part, seq=seq, lost=self._lost)
        self._file = OutputFile(partial(self._names, self._part), self._failed)
        self._given = self._given_lines = 0
        self._part += 1
        self._told, self._again_at = self._lost, 0
        self._give(encode(header) + b"\n", 0)
        return self._file is not None

    def _names(self, part: int) -> Iterator[Path]:
        header = self._header
        name = header.session or f"route-{header.route}"
        return self._context.writer.place.names(name, header.started_at, part)

    def _give(self, data: bytes, count: int) -> None:
        file = self._file
        if file is None:
            return
        if not self._context.writer.put(file, data, count):
            self._context.writer.finish(file)
            self._context.ledger.counters["recordings_overflowed"] += 1
            self._stop("the disk does not keep up", count)
            return
        self._given += len(data)
        self._given_lines += count
        if self._given_lines and 0 < self._context.rotate_bytes <= self._given:
            self._context.writer.finish(file)
            self._file, self._lost, self._told = None, 0, 0

    def _failed(self, file: OutputFile, error: OSError) -> None:
        """Handle a file that the writer could not write."""
        if file is not self._file:
            self._context.ledger.counters["recordings_failed"] += 1
            log.error("the end of a part of a recording is lost", session=self._header.session, cause=str(error))
            return
        if not file.size:  # it was never created
            self._part -= 1
            self._told = 0
        self._stop(str(error), self._given_lines - file.lines)

    def _stop(self, cause: str, lines: int) -> None:
        self._file = None
        self._again_at = self._monotonic() + int(RETRY * 1e9)
        self._lost, self._told = self._lost - self._told, 0
        self._lose(lines)
        self._context.ledger.counters["recordings_failed"] += 1
        log.error(
            "NOT RECORDING this session, trying again later",
            session=self._header.session,
            cause=cause,
            seconds=RETRY,
            traffic="goes on",
        )

    def _lose(self, lines: int) -> None:
        self._lost += lines
        self._context.ledger.counters["recording_lines_lost"] += lines
