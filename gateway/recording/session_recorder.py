"""The recorder of one session: it gathers steps, then redacts, encodes and writes all of them at once.

A step is flushed soon, together with those of other recordings. A text that streams is gathered for longer, because
redacting and encoding many of its pieces at once costs much less than one by one. It is gathered until it ends, for
seven eighths of the redactor's window, or until its frames have SIZE_MAX bytes.

Texts of several recordings that are due within ROUND are flushed together. A sync of the disk costs the same CPU for
one file and for many. A flush in a row of several costs half as much CPU as a flush alone. A TextNotes notes the
further pieces of a text that come one at a time. Each costs one call and no object.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from msgspec import Struct, structs

from dragoman.adapters.inbound import memory
from dragoman.gateway.recording.format import UP, CommandLine, EventLine, Header, Line
from dragoman.gateway.recording.parts import RecordingParts
from dragoman.gateway.recording.pending import (
    SIZE_MAX,
    STREAMED,
    TIME,
    FramesNote,
    Note,
    PendingSteps,
    TapPoint,
    TextRun,
    TextSource,
)
from dragoman.gateway.recording.recordings import FLUSH, Recordings
from dragoman.gateway.recording.session_redactor import SessionRedactor
from dragoman.gateway.timers import Deadline
from dragoman.mappings.alike import Around
from dragoman.mappings.canonical import Batch, Command, Event, SessionState
from dragoman.mappings.canonical.commands import SubmitInput
from dragoman.mappings.canonical.events import TurnAccepted, TurnEnded
from dragoman.mappings.dialect import Frame

ROUND = 0.1  # seconds, at most a tenth of those that pieces of a text wait
MARGIN = int(2 * FLUSH * 1e6)  # µs from the end of a timer until its flush is finished


class CurrentCall(Struct, eq=False):
    """The state of one synchronous call of a route's links and sessions, whose frames are recorded together.

    `session` acts, and frames that are sent meanwhile belong to it. `on_acting` is called with the session that acts on
    the frames of a link, if these may belong to any session. `reading` is the single frame of a further piece of a
    text: a link sets it when it reads the frame, and the session that takes the piece records the frame.
    """

    session: SessionRecorder | None = None
    on_acting: Callable[[SessionRecorder], None] | None = None
    reading: Frame | None = None


class SessionRecorder:
    """Record one session, or without `state` the items of a route that belong to no session.

    `actor` is the client's link whose frames are recorded if not those of all clients are: the link whose turn is open,
    else the one that gave the last command.
    """

    # Slots, because a token touches few cache lines then.
    __slots__ = (
        "_call",
        "_gather",
        "_held",
        "_is_planned",
        "_is_soon",
        "_monotonic",
        "_notes",
        "_parts",
        "_recordings",
        "_redactor",
        "_round",
        "_start",
        "_state",
        "_t",
        "_text_ended",
        "_texts_around",
        "_texts_common",
        "_timer",
        "_turn_open",
        "actor",
        "closed",
        "step",
        "texts",
        "texts_size",
    )

    _texts_common: TextSource  # of `texts`
    _texts_around: dict[TapPoint, Around]  # the same

    def __init__(
        self,
        recordings: Recordings,
        call: CurrentCall,
        header: Header,
        state: SessionState | None = None,
        *,
        public_ids: Callable[[], list[str]] = list,
        clock: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.actor = ""
        self._call = call
        header = structs.replace(header, started_at=clock())
        self._parts = RecordingParts(recordings, header, public_ids=public_ids, monotonic=monotonic)
        self._state = state
        self._monotonic = monotonic
        self._start = monotonic()
        self._turn_open = False
        self._notes = PendingSteps()
        self._t = -1  # of the last step, in µs
        self.step: list[Note] = []  # the notes of the step that is not over
        self.texts: list[Any] = []  # lone pieces of a text after the pending steps, as cells of a TextRun
        self.texts_size = 0  # bytes of their frames
        redactor = SessionRedactor(recordings, self._parts)
        self._redactor: SessionRedactor | None = redactor
        self._recordings = recordings
        self._held = False
        self._is_planned = self._is_soon = False  # a flush: at any time, within FLUSH
        self._text_ended = False  # what the redactor holds back can be written
        self._timer = Deadline(recordings.later)
        longest = redactor.redactor.window * 7 / 8e6
        self._round = min(ROUND, longest / 10)
        self._gather = longest - self._round - FLUSH
        self.closed = False

    def hold(self) -> None:
        """Write nothing before `name`, because the header and the file name need the id of the session."""
        self._held = True

    def name(self, session: str) -> None:
        """Set the id that the backend gave the session, and write the steps that waited for it."""
        self._parts.name(session)
        self._held = False
        self._flush_soon()

    def enter(self) -> SessionRecorder | None:
        """Make this the acting session, to which the frames that a link reads belong.

        Return the session that acted before.
        """
        call = self._call
        before, call.session = call.session, self
        if call.on_acting is not None:
            call.on_acting(self)
        return before

    def leave(self, before: SessionRecorder | None) -> None:
        """Make `before` the acting session again, after `enter` or `batch`."""
        self._call.session = before
        if before is not self:
            self.end_step()

    def end_step(self) -> None:
        """End the step: its frames, events and commands get one time. Flush at once if much is gathered."""
        step = self.step
        if not step:
            return
        self.step = []
        if self.texts:
            self._gather_texts()
        self._t = max((self._monotonic() - self._start) // 1000, self._t + 1)  # no two steps have one time
        much = self._notes.add(self._t, step)
        if not self._is_soon and (self._text_ended or not self._is_planned):
            if self._notes.streams and not self._text_ended:
                self._flush_later()
            else:
                self._flush_soon()
        if much:
            self.flush()  # the timer finds nothing, or what comes meanwhile

    def open_text(self, links: Sequence[Sequence[str]], around: Sequence[Around | None]) -> TextNotes:
        """Return the recorder of further pieces of the text that ends this step, for the `links` of each rendering.

        `around` has the strings around the text in its frames; None if the frames differ in more and must be noted.
        """
        return TextNotes(self, self._call, self._monotonic, [*zip(links, around, strict=True)])

    def begin_texts(self, common: TextSource | None, around: dict[TapPoint, Around]) -> TextSource | None:
        """Plan the flush of lone pieces of a text, before the first one is noted. Return the facts that their steps
        share.

        With `common` None these are those of the last step; return None if that was not a piece of a text. `around` has
        the strings around the text at the tap points where no frames are noted.
        """
        common = common or self._notes.common
        if common is not None:
            self._texts_common, self._texts_around = common, around
            if not self._is_planned:
                self._flush_later()
        return common

    def _gather_texts(self) -> None:
        """Add the lone pieces of a text to the pending steps, with their times in µs."""
        run, size = TextRun(self._texts_common, self.texts, self._texts_around), self.texts_size
        self.texts, self.texts_size = [], 0
        times = [(now - self._start) // 1000 for now in run.column(TIME)]
        if times[0] <= self._t or len({*times}) < len(times):  # no two steps have one time; the clock never goes back
            times = [*accumulate(times, lambda before, t: max(before + 1, t), initial=self._t)][1:]
        run.set_times(times)
        self._t = times[-1]
        self._notes.add_texts(run, size)

    def batch(self, batch: Batch) -> SessionRecorder | None:
        """Record events that were added to the session's log, and make it the acting session.

        Return the one that acted before.
        """
        call = self._call
        before, call.session = call.session, self
        if call.on_acting is not None:
            call.on_acting(self)
        events = batch.events
        first, last = type(events[0]), type(events[-1])
        if first is TurnAccepted:
            self._turn_open, self.actor = True, batch.origin.link
            self._parts.take_input()
        if last is TurnEnded:
            self._turn_open = False  # its last frames are still to be sent: `actor` stays
        if first not in STREAMED or (len(events) > 1 and not STREAMED.issuperset(map(type, events))):
            self._text_ended = True
        self.step.append(batch)
        return before

    def frames(self, tapped: TapPoint, frames: Sequence[Frame]) -> None:
        """Record frames that a link received or sent."""
        self.step.append(FramesNote(tapped, frames))
        if self._call.session is not self:
            self.end_step()

    def command(self, link: str, command: Command) -> None:
        """Record a command of a client; with the link UP a command to the backend."""
        if link != UP:
            if not self._turn_open:
                self.actor = link
            if isinstance(command, SubmitInput):
                self._parts.take_input()
        self._line(CommandLine(cursor=self._cursor(), command=command, link=link))

    def answer(self, link: str, event: Event) -> None:
        """Record an event that went to one link alone."""
        self._line(EventLine(cursor=self._cursor(), event=event, link=link))

    def _line(self, line: Line) -> None:
        self.step.append(line)
        if self._call.session is not self:
            self.end_step()

    def _flush_soon(self) -> None:
        if not self._is_soon:
            self._is_planned = self._is_soon = True
            self._recordings.wants_flush(self.flush, FLUSH)

    def _flush_later(self) -> None:
        """Flush when a text was gathered for long enough. A step that does not belong to it is still flushed soon."""
        self._is_planned = True
        self._timer.start(self._gather, lambda: self._recordings.wants_flush(self.flush, self._round))

    def flush(self) -> int:
        """Redact and encode the gathered steps, and give them to the writer. Return how many bytes are searched."""
        self._is_planned = self._is_soon = self._text_ended = False
        self._timer.stop()
        redactor = self._redactor
        if self._held or redactor is None:
            return 0
        if self.texts:
            self._gather_texts()
        return redactor.redact(self._notes, self._now() + 2 * MARGIN, self._plan_release)

    def _plan_release(self) -> None:
        """Plan the flush that releases text that the redactor holds back, or that came while the thread worked."""
        redactor = self._redactor
        if redactor is None or redactor.busy:
            return  # the recording is closed, or its last job in the thread plans this again
        since = redactor.redactor.since
        if since is not None:
            due = since + redactor.redactor.window - MARGIN
            self._is_planned = True
            self._timer.start(max((due - self._now()) / 1e6, FLUSH), self._flush_soon)
        elif (self._notes.streams or self.texts) and not self._is_planned:
            self._flush_later()

    def close(self) -> None:
        """Write all remaining steps, and close the file."""
        self._held = False
        self.end_step()
        self.flush()
        self.closed = True
        self._timer.stop()
        if self._redactor is not None:
            self._redactor.finish(self._parts.close)
        self._state = self._redactor = None  # a link may still refer to this recorder

    def _now(self) -> int:
        return (self._monotonic() - self._start) // 1000

    def _cursor(self) -> str:
        return f"{self._state.epoch}:{self._state.seq}" if self._state is not None else "0:0"


class TextNotes:
    """Records the pieces of an open text that come alone: each adds a few cells to the list of its SessionRecorder."""

    __slots__ = ("_actor", "_around", "_call", "_common", "_monotonic", "_places", "_recorder", "_targets")

    def __init__(
        self,
        recorder: SessionRecorder,
        call: CurrentCall,
        monotonic: Callable[[], int],
        targets: Sequence[tuple[Sequence[str], Around | None]],
    ) -> None:
        self._recorder, self._call, self._monotonic = recorder, call, monotonic
        self._actor = recorder.actor
        self._targets = targets
        self._common: TextSource | None = None
        self._around: dict[TapPoint, Around] = {}
        # The place of each rendering that is recorded, once for each link, and True if its frames are not noted.
        self._places: Sequence[tuple[int, bool]] = ()

    def add_text(self, text: str, seq: int, at: int, rendered: Sequence[Sequence[bytes]]) -> bool:
        """Note a piece with the number `seq` in the log, the frame that was read, and the frames of each rendering.

        Return False, and note nothing, if its step is not like that of the piece before it.
        """
        call, recorder = self._call, self._recorder
        received, call.reading = call.reading, None
        cells = recorder.texts
        if received is None or recorder.actor is not self._actor or not (cells or self._begin()):
            return False
        noted = [self._monotonic(), seq, at, text, received]  # the cells of a step of a TextRun, in their order
        size = len(received) if type(received) is bytes else memory(received)
        for place, is_known in self._places:
            frames = rendered[place]
            if len(frames) != 1:
                return False
            if is_known:
                noted.append(None)
            else:
                noted += frames
                size += len(frames[0])
        cells += noted
        recorder.texts_size += size
        if recorder.texts_size >= SIZE_MAX:
            recorder.flush()
        return True

    def _begin(self) -> bool:
        """Plan the flush of the next pieces. Return False if the step before them was another one."""
        common = self._recorder.begin_texts(self._common, self._around)
        if common is None or common is self._common:
            return common is not None
        tapped = common.tapped
        sent = [point.link for point in tapped[1:]]
        found = [
            (link, place, around)
            for place, (links, around) in enumerate(self._targets)
            for link in links
            if link in sent
        ]
        if not tapped or tapped[0].dir == "send" or [link for link, *_ in found] != sent:
            return False
        self._common = common
        self._places = [(place, around is not None) for _, place, around in found]
        for point, (*_, around) in zip(tapped[1:], found, strict=True):
            if around is not None:
                self._around[point] = around
        return True
