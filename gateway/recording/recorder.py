"""The recordings of a gateway: a Recorder for each route, a Tap for each link, a SessionRecorder for each session.

Events come from the delivery of their session. Frames come from taps, and a link may carry many sessions. All of the
following happens in one synchronous call, from the frames that a link reads to the last frame that is written because
of them. This call is a step: its frames, events and commands are recorded together.

    frames and command of a client   the session that the command is routed to
    frames that are sent meanwhile   the session that acts (`current`)
    any other frame of a link        the last session of that link, or else the route
    frames of a backend that its
    translator keeps for later       the session that they name

A SessionRecorder gathers steps until its FlushPlan flushes them. Then all of them are redacted, encoded and written in
one piece. A large piece is redacted in a thread (redaction_worker.py). A lone piece of a text that streams is one row
from the beginning: `begin_text` and `end_text` record its frames and its event without a note for each.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import structlog
from msgspec import structs

from dragoman import __version__
from dragoman.gateway.config.model import Limits, Route
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.overload.memory import MemoryBudget
from dragoman.gateway.recording.backlog import RecordingBacklog
from dragoman.gateway.recording.flush_plan import FLUSH, MARGIN, FlushPlan
from dragoman.gateway.recording.format import Header, encode_lines, packed
from dragoman.gateway.recording.lines import UP, EventLine, FrameLine
from dragoman.gateway.recording.parts import RecordingParts
from dragoman.gateway.recording.pending import STREAMED, TEXTS_MAX, FramesNote, Note, PendingSteps, Row, TapPoint
from dragoman.gateway.recording.redaction.redactor import Redactor
from dragoman.gateway.recording.redaction_worker import RedactionWorker
from dragoman.gateway.recording.session_redactor import SessionRedactor, write_lines
from dragoman.gateway.recording.stray_frames import StrayFrames
from dragoman.gateway.recording.writer import Writer
from dragoman.gateway.timers import Schedule, Timer
from dragoman.mappings.canonical import Batch, Command, Event, SessionState
from dragoman.mappings.canonical.commands import SubmitInput
from dragoman.mappings.canonical.events import TextDelta, TurnAccepted, TurnEnded
from dragoman.mappings.dialect import Dialect, Frame, Step

Take = Callable[[Sequence[Frame]], None]

log = structlog.get_logger("dragoman.recording")


class Recordings:
    """All recordings of a gateway: its writer and redactors, one flush timer, and a recorder for each route."""

    def __init__(
        self,
        writer: Writer,
        ledger: Ledger,
        memory: MemoryBudget,
        later: Schedule,
        *,
        redactor: Callable[[], Redactor] | None = None,
        worker: RedactionWorker | None = None,
        everything: bool = False,
    ) -> None:
        self.writer = writer
        self.worker = worker
        self.redactor = redactor
        self.ledger = ledger
        self.memory = memory
        self._backlog = RecordingBacklog(writer, worker, memory)
        self.later = later
        self._everything = everything
        self.recorders: list[Recorder] = []
        self._timer: Timer | None = None
        self._waiting: dict[SessionRecorder, None] = {}
        self.current: SessionRecorder | None = None
        """The session that acts. Frames that are sent meanwhile belong to it."""
        self.speaking: Tap | None = None
        """The link whose frames are being acted on, if its frames may belong to any session."""
        self.reading: FramesNote | None = None
        """The lone frame that a link reads as a further piece of a text."""

    def of(
        self,
        route: Route,
        limits: Limits,
        find_id: Callable[[str], str],
        public_ids: Callable[[SessionState], list[str]],
    ) -> Recorder | None:
        """Return a recorder for a route, or None if it is not recorded."""
        if not route.record:
            return None
        endpoints = (*route.listen, route.upstream)
        header = Header(
            gateway=__version__,
            route=route.name,
            upstream=route.upstream.masked,
            dialects={endpoint.dialect: endpoint.generation for endpoint in endpoints},
        )
        recorder = Recorder(self, header, limits, everything=self._everything, find_id=find_id, public_ids=public_ids)
        self.recorders.append(recorder)
        return recorder

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
        if self._backlog.count_bytes() and self._timer is None:
            self._timer = self.later(FLUSH, self._flush)

    async def close(self) -> None:
        """Write everything that was recorded, and stop. Log an error if the disk takes too long."""
        for recorder in self.recorders:
            recorder.close()
        if self.worker is not None:
            await self.worker.close()
        if not await asyncio.to_thread(self.writer.close):
            log.error("the end of the recordings was not written: the disk did not take it in time")
        self._backlog.release()


class SessionRecorder:
    """Record one session, or without `state` the items of a route that belong to no session.

    `actor` is the client's link whose frames are recorded if not those of all clients are: the link whose turn is open,
    else the one that gave the last command. If it is `held`, nothing is written before `name`, because the header and
    the file name need the id of the session.
    """

    # Slots, because a token touches few cache lines then.
    __slots__ = (
        "_held",
        "_monotonic",
        "_notes",
        "_parts",
        "_plan",
        "_recordings",
        "_redactor",
        "_start",
        "_state",
        "_stray",
        "_t",
        "_texts",
        "_turn_ended",
        "_turn_open",
        "actor",
        "closed",
        "step",
    )

    def __init__(
        self,
        recordings: Recordings,
        header: Header,
        state: SessionState | None = None,
        *,
        public_ids: Callable[[], list[str]] = list,
        held: bool = False,
        clock: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.actor = ""
        self._recordings = recordings
        header = structs.replace(header, started_at=clock())
        self._parts = RecordingParts(
            recordings.writer, recordings.ledger, recordings.memory, header, public_ids=public_ids, monotonic=monotonic
        )
        self._state = state
        self._monotonic = monotonic
        self._start = monotonic()
        self._turn_open = False
        self._turn_ended = False
        self._notes = PendingSteps()
        self._t = -1  # of the last step, in µs
        self.step: list[Note] = []  # the notes of the step that is not over
        self._texts: list[Row] = []  # lone pieces of a text behind the pending steps
        self._redactor = (
            SessionRedactor(recordings.redactor, self._parts, recordings.ledger, recordings.worker)
            if recordings.redactor is not None
            else None
        )
        self._held = held
        window = self._redactor.redactor.window if self._redactor is not None else 0
        self._plan = FlushPlan(partial(recordings.wants_flush, self), recordings.later, self._now, window)
        self._stray: StrayFrames | None = None
        self.closed = False

    def name(self, session: str) -> None:
        """Set the id of the session and write what was noted."""
        self._parts.name(session)
        self._held = False
        self._plan.flush_soon()

    def enter(self) -> SessionRecorder | None:
        """Make this the acting session, and assign the frames of the speaking link to it. Return who acted before."""
        recordings = self._recordings
        before, recordings.current = recordings.current, self
        if recordings.speaking is not None:
            recordings.speaking.reaches(self)
        return before

    def leave(self, before: SessionRecorder | None) -> None:
        """End what `enter` or `batch` began: `before` acts again."""
        self._recordings.current = before
        if before is not self:
            self.acted()

    def acted(self) -> None:
        """End the step: its frames, events and commands get one time. Flush at once if much is gathered."""
        step = self.step
        if not step:
            return
        self.step = []
        if self._texts:
            self._gather_texts()
        self._t = max((self._monotonic() - self._start) // 1000, self._t + 1)  # no two steps have one time
        much, plan = self._notes.add(self._t, step), self._plan
        if not plan.waits and (plan.due is None or plan.text_ends):
            plan.flush_next(self._notes.streams and not plan.text_ends)
        if much:
            self.flush()  # the timer finds nothing, or what comes meanwhile

    def begin_text(self) -> SessionRecorder | None:
        """Make this the acting session for a lone further piece of its text. Return who acted before."""
        before, self._recordings.current = self._recordings.current, self
        return before

    def end_text(self, before: SessionRecorder | None, batch: Batch, seq: int, text: str, at: int) -> None:
        """Record what happened since `begin_text`. This text was added to the open batch of the log."""
        recordings, step, plan = self._recordings, self.step, self._plan
        received, recordings.reading, recordings.current = recordings.reading, None, before
        alone = received is not None and before is not self
        row: list[Any] = [0, seq, at, text, batch.epoch, batch.turn, batch.origin, TextDelta, None, 1]
        for note in (received, *step):
            if type(note) is not FramesNote or len(note.frames) != 1:
                alone = False
                break
            row += (note.tapped, note.frames[0])
        if not alone:
            step += [received] if received is not None else []
            step.append(structs.replace(batch, first_seq=seq, events=[TextDelta(text=text)], at=at))
            if before is not self:
                self.acted()
            return
        step.clear()
        row[0] = self._t = max((self._monotonic() - self._start) // 1000, self._t + 1)
        self._texts.append(tuple(row))
        if plan.due is None and not plan.waits:
            plan.flush_next(streams=True)
        if len(self._texts) >= TEXTS_MAX and self._gather_texts():
            self.flush()

    def _gather_texts(self) -> bool:
        """Add the lone pieces of text to the pending steps. Return True if these should be taken now."""
        texts, self._texts = self._texts, []
        return self._notes.add_rows(texts)

    def batch(self, batch: Batch) -> SessionRecorder | None:
        """Record events that were added to the session's log, and make it act. Return who acted before."""
        recordings = self._recordings
        before, recordings.current = recordings.current, self
        if recordings.speaking is not None:
            recordings.speaking.reaches(self)
        if self._turn_ended:
            self._turn_open = self._turn_ended = False
        events = batch.events
        first, last = type(events[0]), type(events[-1])
        if first is TurnAccepted:
            self._turn_open, self.actor = True, batch.origin.link
            self._parts.take_input()
        if last is TurnEnded:
            self._turn_ended = True  # its last frames are still to be sent
        if first not in STREAMED or (len(events) > 1 and not STREAMED.issuperset(map(type, events))):
            self._plan.end_text()
        self.step.append(batch)
        return before

    def frames(self, tapped: TapPoint, frames: Sequence[Frame]) -> None:
        """Record frames that a link received or sent."""
        self.step.append(FramesNote(tapped, frames))
        if self._recordings.current is not self:
            self.acted()

    def stray_frames(self, tapped: TapPoint, frames: Sequence[Frame], limits: Limits) -> None:
        """Record frames of a client that reach no session, or answers to them. Above `stray_rate` only count them."""
        if self._stray is None:
            self._stray = StrayFrames(limits, self._monotonic, self._recordings.later, self._line)
        if self._stray.takes(tapped, len(frames)):
            self.frames(tapped, frames)

    def command(self, link: str, command: Command) -> None:
        """Record a command of a client; with the link UP a command to the backend."""
        if link != UP:
            if self._turn_ended:
                self._turn_open = self._turn_ended = False
            if not self._turn_open:
                self.actor = link
            if isinstance(command, SubmitInput):
                self._parts.take_input()
        self._line(EventLine(cursor=self._cursor(), command=command, link=link))

    def answer(self, link: str, event: Event) -> None:
        """Record an event that went to one link alone."""
        self._line(EventLine(cursor=self._cursor(), event=event, link=link))

    def _line(self, line: EventLine | FrameLine) -> None:
        self.step.append(line)
        if self._recordings.current is not self:
            self.acted()

    def flush(self) -> None:
        """Redact and encode the gathered steps, and give them to the writer."""
        self._plan.start_flush()
        if self._held or self.closed:
            return
        if self._texts:
            self._gather_texts()
        redactor = self._redactor
        if redactor is None:
            self._plan.forget_text()
            lines = self._notes.take()
            write_lines(self._parts, lines, lambda: encode_lines(packed(lines)))
            return
        now, streams = self._now() + 2 * MARGIN, self._notes.streams
        redactor.redact(self._notes, now, lambda: self._plan_release(redactor, streams or self._notes.streams))

    def _plan_release(self, redactor: SessionRedactor, streams: bool) -> None:
        """Plan the flush that writes in time what the redactor holds back."""
        if redactor.busy or self.closed:
            return  # its last job in the thread plans this again
        self._plan.forget_text()
        if (since := redactor.redactor.since) is not None:
            self._plan.flush_at(since + redactor.redactor.window - MARGIN)
        elif streams:
            self._plan.flush_next(streams)

    def close(self) -> None:
        """Write all that is left, and close the file."""
        self._held = False
        if self._stray is not None:
            self._stray.tell_left_out()
        self.acted()
        self.flush()
        self.closed = True
        self._plan.cancel()
        if self._redactor is not None:
            self._redactor.finish(self._parts.close)
        else:
            self._parts.close()
        self._state = self._redactor = None  # a link may still refer to this recorder

    def _now(self) -> int:
        return (self._monotonic() - self._start) // 1000

    def _cursor(self) -> str:
        return f"{self._state.epoch}:{self._state.seq}" if self._state is not None else "0:0"


class Recorder:
    """The session recorders of one route, and one for items that belong to no session, which is made when needed.

    With `everything` the frames of all clients are recorded, else only those that docs/design.md, section 8, names.
    `find_id` returns the id of the session to which the backend gave a name, or "" if there is none. `public_ids`
    returns the ids under which clients know a session.
    """

    def __init__(
        self,
        recordings: Recordings,
        header: Header,
        limits: Limits,
        *,
        everything: bool,
        find_id: Callable[[str], str] = lambda name: name,
        public_ids: Callable[[SessionState], list[str]] = lambda _state: [],
    ) -> None:
        self.everything = everything
        self.limits = limits
        self.recordings = recordings
        self._header = header
        self._tracks: dict[str, SessionRecorder] = {}
        self._provisional: dict[str, str] = {}  # the id that a session had before its backend named it, by its own
        self.of: Callable[[str], SessionRecorder | None] = self._tracks.get
        """Return the recorder of a session, or None if the session is over."""
        self._own: SessionRecorder | None = None
        self.find_id = find_id
        self._public_ids = public_ids

    def track(self, state: SessionState, *, held: bool = False) -> SessionRecorder:
        """Return a recorder for a new session."""
        header = structs.replace(self._header, session=state.id)
        track = self._tracks[state.id] = SessionRecorder(
            self.recordings, header, state, public_ids=partial(self._public_ids, state), held=held
        )
        return track

    def unnamed_track(self, state: SessionState) -> SessionRecorder:
        """Return a recorder for a session with a provisional id. Nothing is written before `name_track`."""
        return self.track(state, held=True)

    def name_track(self, provisional: str, state: SessionState) -> None:
        """Record this session under its own id from now on. The upstream tap still uses the provisional id."""
        track = self._tracks.get(provisional)
        if track is not None:
            self._tracks[state.id] = track
            self._provisional[state.id] = provisional
            track.name(state.id)

    def tap(self, link: str, dialect: str) -> Tap:
        """Return a tap for the link of a client."""
        return Tap(self, link, dialect)

    def upstream(self, dialect: Dialect, session: str) -> Tap:
        """Return a tap for a link to the backend, which carries one session, or many ("")."""
        return Tap(self, UP, dialect.name, upstream=dialect, session=session)

    def over(self, session: str) -> None:
        """Close the recording of a session that is over."""
        track = self._tracks.pop(session, None)
        if track is not None:
            self._tracks.pop(self._provisional.pop(session, ""), None)
            track.close()

    def close(self) -> None:
        """Close all recordings of the route."""
        for session in list(self._tracks):
            self.over(session)
        if self._own is not None:
            self._own.close()

    @property
    def own(self) -> SessionRecorder:
        """Return the recorder of items that belong to no session."""
        if self._own is None:
            self._own = SessionRecorder(self.recordings, self._header)
        return self._own


class Tap:
    """Observes the frames of one link. `session` is set if the link belongs to one session only."""

    # Slots, because a token touches few cache lines then.
    __slots__ = (
        "_command",
        "_frames",
        "_home",
        "_received",
        "_recorder",
        "_recordings",
        "_sent",
        "_upstream",
        "link",
        "session",
    )

    def __init__(
        self, recorder: Recorder, link: str, dialect: str, *, upstream: Dialect | None = None, session: str = ""
    ) -> None:
        self.link = link
        self._recorder = recorder
        self._recordings = recorder.recordings
        self._received = TapPoint(link, "receive", dialect)
        self._sent = TapPoint(link, "send", dialect)
        self._upstream = upstream
        self.session = session
        self._home: SessionRecorder | None = None
        self._frames: Sequence[Frame] = ()
        self._command: Command | None = None

    def heard(self, frames: Sequence[Frame]) -> None:
        """Record received frames of a link with one session. The gateway acts on them until `acted` is called."""
        track = self._home
        if track is None or track.closed:
            track = self._home = self._recorder.of(self.session)
        self._recordings.current, self._recordings.reading = track, None
        if track is not None:  # else its session is over
            track.step.append(FramesNote(self._received, frames))

    def hear_text(self, frames: Sequence[Frame]) -> None:
        """Note a lone frame that may be a further piece of a text. If it is, the session that takes it records it."""
        self._recordings.reading = FramesNote(self._received, frames)

    def acted(self) -> None:
        """End the step that `heard` began."""
        track, self._recordings.current = self._recordings.current, None
        if track is not None:
            track.acted()
        if self._home is not None and self._home is not track:  # the frames made another session act
            self._home.acted()

    def receive(self, frames: Sequence[Frame], take: Take) -> None:
        """Record received frames of a link with many sessions. Call `take` with each frame, which acts on it."""
        self._recordings.reading = None
        for frame in frames:
            self._recordings.current, self._recordings.speaking = None, self
            self._frames = (frame,)
            take(self._frames)
            self._settle()

    def asks(self, command: Command) -> None:
        """Note the command that the received frames mean, until it reaches a session."""
        if self._command is not None:
            self._record_unclaimed()
        self._recordings.current, self._recordings.speaking = None, self
        self._command = command

    def reaches(self, track: SessionRecorder) -> None:
        """Record the received frames and their command in the session to which the command was routed."""
        self._home = track
        frames, self._frames = self._frames, ()
        command, self._command = self._command, None
        if frames and (command is not None or self._records(track)):
            track.frames(self._received, frames)
        if command is not None:
            track.command(self.link, command)

    def send(self, items: Sequence[Any]) -> None:
        """Record canonical items that are sent: replies to one client, or commands to the backend."""
        track = self._track()
        if track is None:
            return
        for item in items:
            (track.answer if self._upstream is None else track.command)(self.link, item)

    def shown(self, session: str) -> None:
        """Make this the session of a client's link: the client is attached to it now."""
        if self._upstream is None:
            self._home = self._recorder.of(session)

    def put(self, frames: Sequence[bytes]) -> None:
        """Record frames that are sent."""
        track = self._recordings.current
        if track is not None and self._upstream is None:
            if track.actor == self.link:  # nearly always
                track.step.append(FramesNote(self._sent, frames))
                return
            if not self._recorder.everything:
                return
        track = self._track()
        if track is None or not self._records(track):
            return
        is_stray = self._upstream is None and self._frames and self._command is None
        if is_stray:
            track.stray_frames(self._sent, frames, self._recorder.limits)
        else:
            track.frames(self._sent, frames)

    def _track(self) -> SessionRecorder | None:
        """Return the recorder of what is sent now; None if no session sends it and such items are not recorded."""
        if self.session:
            return self._recorder.of(self.session)
        track = self._recordings.current or self._home
        if track is None and (self._upstream is not None or self._recorder.everything):
            self._record_unclaimed()
            return self._recorder.own
        return track

    def _records(self, track: SessionRecorder) -> bool:
        return self._upstream is not None or self._recorder.everything or track.actor == self.link

    def _settle(self) -> None:
        """End the step of one received frame."""
        self._record_unclaimed()
        track = self._recordings.current
        self._recordings.current = self._recordings.speaking = None
        if track is not None:
            track.acted()

    def _record_unclaimed(self) -> None:
        """Record frames and a command that reached no session: in the session that they name, else in the route."""
        frames, self._frames = self._frames, ()
        command, self._command = self._command, None
        if frames and self._upstream is not None:
            (self._named_session(frames) or self._recorder.own).frames(self._received, frames)
        elif frames and self._recorder.everything:
            self._recorder.own.stray_frames(self._received, frames, self._recorder.limits)
        if command is not None and self._recorder.everything:
            self._recorder.own.command(self.link, command)

    def _named_session(self, frames: Sequence[Frame]) -> SessionRecorder | None:
        """Return the recorder of the session that these frames of a backend name."""
        if self._upstream is None:
            return None
        step: Step[Event] = Step()
        self._upstream.events.receive(frames, step)
        found = (self._recorder.of(self._recorder.find_id(burst.session)) for burst in step.bursts if burst.session)
        return next((track for track in found if track is not None), None)
