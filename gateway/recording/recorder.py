"""The recordings of a route: a Recorder, a Tap for each link, and a SessionRecorder for each session.

Events come from the delivery of their session. Frames come from taps, and a link may carry many sessions. All of the
following happens in one synchronous call. It begins with the frames that a link reads, and ends with the last frame
that they cause. This call is a step: its frames, events and commands are recorded together.

    frames and command of a client   the session that the command is routed to
    frames that are sent meanwhile   the session that acts (`CurrentCall.session`)
    any other frame of a link        the last session of that link, or else the route
    frames of a backend that its
    translator keeps for later       the session that they name
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec import structs

from dragoman import __version__
from dragoman.gateway.config.model import Route
from dragoman.gateway.recording.format import UP, Header
from dragoman.gateway.recording.pending import FramesNote, TapPoint
from dragoman.gateway.recording.recordings import Recordings
from dragoman.gateway.recording.session_recorder import CurrentCall, SessionRecorder
from dragoman.mappings.canonical import Command, Event, SessionState
from dragoman.mappings.dialect import Dialect, Frame, Step

Take = Callable[[Sequence[Frame]], None]


def header_of(route: Route) -> Header:
    """Return the header that all recordings of a route begin with."""
    endpoints = (*route.listen, route.upstream)
    return Header(
        gateway=__version__,
        route=route.name,
        upstream=route.upstream.masked,
        dialects={endpoint.dialect: endpoint.generation for endpoint in endpoints},
    )


class Recorder:
    """The session recorders of one route, and one for items that belong to no session, which is made when needed.

    `find_id` returns the id of the session to which the backend gave a name, or "" if there is none. `public_ids`
    returns the ids under which clients know a session.
    """

    def __init__(
        self,
        recordings: Recordings,
        header: Header,
        *,
        find_id: Callable[[str], str],
        public_ids: Callable[[SessionState], list[str]] = lambda _state: [],
    ) -> None:
        self.recordings = recordings
        self.everything = recordings.everything
        """True if the frames of all clients are recorded, else those that docs/design.md, section 8, names."""
        self.call = CurrentCall()
        self._header = header
        self._sessions: dict[str, SessionRecorder] = {}
        self._provisional: dict[str, str] = {}  # the id that a session had before its backend named it, by its own
        self.recorder_of: Callable[[str], SessionRecorder | None] = self._sessions.get
        """Return the recorder of a session, or None if the session is over."""
        self._own: SessionRecorder | None = None
        self.find_id = find_id
        self._public_ids = public_ids

    def record_session(self, state: SessionState) -> SessionRecorder:
        header = structs.replace(self._header, session=state.id)
        recorder = self._sessions[state.id] = SessionRecorder(
            self.recordings, self.call, header, state, public_ids=partial(self._public_ids, state)
        )
        return recorder

    def record_unopened(self, state: SessionState) -> SessionRecorder:
        """Return a recorder for a session with a provisional id. Nothing is written before `name_session`."""
        recorder = self.record_session(state)
        recorder.hold()
        return recorder

    def name_session(self, provisional: str, state: SessionState) -> None:
        """Register a session under the id that its backend gave it.

        Its upstream tap, and a file that was begun, keep the provisional id.
        """
        recorder = self._sessions.get(provisional)
        if recorder is not None:
            self._sessions[state.id] = recorder
            self._provisional[state.id] = provisional
            recorder.name(state.id)

    def tap(self, link: str, dialect: str) -> Tap:
        return Tap(self, link, dialect)

    def upstream(self, dialect: Dialect, session: str) -> Tap:
        """Return a tap for a link to the backend, which carries one session, or many ("")."""
        return Tap(self, UP, dialect.name, upstream=dialect, session=session)

    def end_session(self, session: str) -> None:
        """Close the recording of a session that is over."""
        recorder = self._sessions.pop(session, None)
        if recorder is not None:
            self._sessions.pop(self._provisional.pop(session, ""), None)
            recorder.close()

    def close(self) -> None:
        """Close all recordings of the route."""
        for session in list(self._sessions):
            self.end_session(session)
        if self._own is not None:
            self._own.close()

    @property
    def own(self) -> SessionRecorder:
        """Return the recorder of items that belong to no session."""
        if self._own is None:
            self._own = SessionRecorder(self.recordings, self.call, self._header)
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
        "_sent",
        "_upstream",
        "call",
        "link",
        "session",
    )

    def __init__(
        self, recorder: Recorder, link: str, dialect: str, *, upstream: Dialect | None = None, session: str = ""
    ) -> None:
        self.link = link
        self._recorder = recorder
        self.call = recorder.call
        self._received = TapPoint(link, "receive", dialect)
        self._sent = TapPoint(link, "send", dialect)
        self._upstream = upstream
        self.session = session
        self._home: SessionRecorder | None = None
        self._frames: Sequence[Frame] = ()
        self._command: Command | None = None

    def begin_step(self, frames: Sequence[Frame]) -> None:
        """Record received frames of a link with one session. The gateway acts on them until `end_step` is called."""
        session = self._home
        if session is None or session.closed:
            session = self._home = self._recorder.recorder_of(self.session)
        self.call.session, self.call.reading = session, None
        if session is not None:  # else its session is over
            session.step.append(FramesNote(self._received, frames))

    def end_step(self) -> None:
        """End the step that `begin_step` began."""
        session, self.call.session = self.call.session, None
        if session is not None:
            session.end_step()
        if self._home is not None and self._home is not session:  # the frames made another session act
            self._home.end_step()

    def receive(self, frames: Sequence[Frame], take: Take) -> None:
        """Record received frames of a link with many sessions. Call `take` with each frame, which acts on it."""
        self.call.reading = None
        for frame in frames:
            self.call.session, self.call.on_acting = None, self.record_in
            self._frames = (frame,)
            take(self._frames)
            self._settle()

    def note_command(self, command: Command) -> None:
        """Store the command that was decoded from the received frames, until it reaches a session."""
        if self._command is not None:
            self._record_unclaimed()
        self.call.session, self.call.on_acting = None, self.record_in
        self._command = command

    def postpone(self, act: Callable[[], object]) -> Callable[[], None]:
        """Take back the received frames and their command. Return a call of `act` that is a step of them, for later."""
        frames, command = self._take()

        def act_later() -> None:
            before = self.call.session
            self.call.session, self.call.on_acting = None, self.record_in
            self._frames, self._command = frames, command
            act()
            self._settle()
            self.call.session = before

        return act_later

    def _take(self) -> tuple[Sequence[Frame], Command | None]:
        frames, self._frames = self._frames, ()
        command, self._command = self._command, None
        return frames, command

    def record_in(self, session: SessionRecorder) -> None:
        """Record the received frames and their command in the session to which the command was routed."""
        self._home = session
        self.call.on_acting = None
        frames, command = self._take()
        if frames and (command is not None or self._records(session)):
            session.frames(self._received, frames)
        if command is not None:
            session.command(self.link, command)

    def record_items(self, items: Sequence[Any]) -> None:
        """Record canonical items that are sent: replies to one client, or commands to the backend."""
        session = self._acting_session()
        if session is None:
            return
        for item in items:
            (session.answer if self._upstream is None else session.command)(self.link, item)

    def note_attached(self, session: str) -> None:
        """Assign the link of a client to the session to which the client is now attached."""
        if self._upstream is None:
            self._home = self._recorder.recorder_of(session)

    def record_frames(self, frames: Sequence[bytes]) -> None:
        session = self.call.session
        if session is not None and self._upstream is None:
            if session.actor == self.link:  # nearly always
                session.step.append(FramesNote(self._sent, frames))
                return
            if not self._recorder.everything:
                return
        session = self._acting_session()
        if session is not None and self._records(session):
            session.frames(self._sent, frames)

    def _acting_session(self) -> SessionRecorder | None:
        """Return the recorder of what is sent now; None if no session sends it and such items are not recorded."""
        if self.session:
            return self._recorder.recorder_of(self.session)
        session = self.call.session or self._home
        if session is None and (self._upstream is not None or self._recorder.everything):
            self._record_unclaimed()
            return self._recorder.own
        return session

    def _records(self, session: SessionRecorder) -> bool:
        return self._upstream is not None or self._recorder.everything or session.actor == self.link

    def _settle(self) -> None:
        """End the step of one received frame."""
        self._record_unclaimed()
        session = self.call.session
        self.call.session = self.call.on_acting = None
        if session is not None:
            session.end_step()

    def _record_unclaimed(self) -> None:
        """Record frames and a command that reached no session in the session that they name, else in the route."""
        frames, command = self._take()
        if frames and self._upstream is not None:
            session = self._named_session(self._upstream, frames)
            (session or self._recorder.own).frames(self._received, frames)
        elif frames and self._recorder.everything:
            self._recorder.own.frames(self._received, frames)
        if command is not None and self._recorder.everything:
            self._recorder.own.command(self.link, command)

    def _named_session(self, backend: Dialect, frames: Sequence[Frame]) -> SessionRecorder | None:
        """Return the recorder of the session that these frames of a backend name."""
        step: Step[Event] = Step()
        backend.events.receive(frames, step)
        found = (
            self._recorder.recorder_of(self._recorder.find_id(burst.session)) for burst in step.bursts if burst.session
        )
        return next((session for session in found if session is not None), None)
