"""The recorder of a route: which session each frame, command and event belongs to.

Events come from the one delivery path of their session. Frames come from taps, one on each link, and a link may carry
many sessions: what a client says belongs to the session that it reaches, what the gateway does meanwhile to the session
that does it (`current`), anything else to the session of which the link last had to do, or else to the route. All of
this happens in one synchronous step, from the frames that a link hands in to the last frame that goes out for them. A
frame of the backend's which its translator keeps for later belongs to the session that it names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import structs

from dragoman.gateway.recording.format import Header
from dragoman.gateway.recording.lines import UP
from dragoman.gateway.recording.pending import FramesNote, TapPoint
from dragoman.gateway.recording.track import RecordingContext, SessionRecorder
from dragoman.mappings.canonical import Command, Event, SessionState
from dragoman.mappings.dialect import Dialect, Frame, Step

__all__ = ["Recorder", "Tap"]

Take = Callable[[Sequence[Frame]], None]


class Recorder:
    """Tracks of the sessions of one route, and one for what belongs to none, made when there is such a thing.

    With `everything` the frames of every client's link are recorded, else of the links docs/design.md, section 8,
    names. `find_id` returns the id of the session that the backend calls by a name, "" if there is none.
    """

    def __init__(
        self,
        desk: RecordingContext,
        header: Header,
        *,
        everything: bool,
        find_id: Callable[[str], str] = lambda name: name,
    ) -> None:
        self.everything = everything
        self.desk = desk
        self._header = header
        self._tracks: dict[str, SessionRecorder] = {}
        self.of: Callable[[str], SessionRecorder | None] = self._tracks.get
        """The track of a session."""
        self._own: SessionRecorder | None = None
        self.find_id = find_id

    def track(self, state: SessionState) -> SessionRecorder:
        """The track of a new session."""
        header = structs.replace(self._header, session=state.id)
        track = self._tracks[state.id] = SessionRecorder(self.desk, header, state)
        return track

    def unnamed_track(self, state: SessionState) -> SessionRecorder:
        """Return the track of a session that has a provisional id: nothing is written before `name_track`."""
        track = self.track(state)
        track.hold()
        return track

    def name_track(self, provisional: str, state: SessionState) -> None:
        """Write the track of this session under its id from now on; the upstream tap still uses the provisional one."""
        track = self._tracks.get(provisional)
        if track is not None:
            self._tracks[state.id] = track
            track.name(state.id)

    def tap(self, link: str, dialect: str) -> Tap:
        """The tap of a client's link."""
        return Tap(self, link, dialect)

    def upstream(self, dialect: Dialect, session: str) -> Tap:
        """The tap of a link to the backend, of one session, or of many ("")."""
        return Tap(self, UP, dialect.name, upstream=dialect, session=session)

    def over(self, session: str) -> None:
        """A session is gone: its recording is closed."""
        track = self._tracks.pop(session, None)
        if track is not None:
            for provisional in [name for name, other in self._tracks.items() if other is track]:
                del self._tracks[provisional]
            track.close()

    def close(self) -> None:
        """The gateway ends."""
        for session in list(self._tracks):
            self.over(session)
        if self._own is not None:
            self._own.close()

    @property
    def own(self) -> SessionRecorder:
        """The track of what belongs to no session."""
        if self._own is None:
            self._own = SessionRecorder(self.desk, self._header)
        return self._own


class Tap:
    """What one link says and hears. `session` is the one that an upstream link belongs to alone."""

    # Looked at for each token: as few lines of the processor's cache as can be.
    __slots__ = (
        "_command",
        "_desk",
        "_frames",
        "_home",
        "_received",
        "_recorder",
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
        self._desk = recorder.desk
        self._received = TapPoint(link, "receive", dialect)
        self._sent = TapPoint(link, "send", dialect)
        self._upstream = upstream
        self.session = session
        self._home: SessionRecorder | None = None
        self._frames: Sequence[Frame] = ()
        self._command: Command | None = None

    # -- what the link does ----------------------------------------------------------------------------

    def heard(self, frames: Sequence[Frame]) -> None:
        """These frames came for the one session that this link has, and are acted on now."""
        track = self._home
        if track is None or track.closed:
            track = self._home = self._recorder.of(self.session)
        self._desk.current = track
        if track is not None:  # else its session is over
            track.step.append(FramesNote(self._received, frames))

    def acted(self) -> None:
        """They were."""
        track, self._desk.current = self._desk.current, None
        if track is not None:
            track.acted()
        if self._home is not None and self._home is not track:  # another session acts on what this one was told
            self._home.acted()

    def receive(self, frames: Sequence[Frame], take: Take) -> None:
        """These frames came, each perhaps of another session; `take` acts on them one by one."""
        for frame in frames:
            self._desk.current, self._desk.speaking = None, self
            self._frames = (frame,)
            take(self._frames)
            self._settle()

    def asks(self, command: Command) -> None:
        """The client means this by what it said."""
        if self._command is not None:
            self._is_nobodys()
        self._desk.current, self._desk.speaking = None, self
        self._command = command

    def reaches(self, track: SessionRecorder) -> None:
        """What the client said is for this session."""
        self._home = track
        frames, self._frames = self._frames, ()
        command, self._command = self._command, None
        if frames and (command is not None or self._records(track)):
            track.frames(self._received, frames)
        if command is not None:
            track.command(self.link, command)

    def send(self, items: Sequence[Any]) -> None:
        """The peer is told, or asked, these canonical items."""
        track = self._track()
        if track is None:
            return
        for item in items:
            (track.answer if self._upstream is None else track.command)(self.link, item)

    def shown(self, session: str) -> None:
        """Assign what the link does from now on to this session, which its client is shown."""
        if self._upstream is None:
            self._home = self._recorder.of(session)

    def put(self, frames: Sequence[bytes]) -> None:
        """These frames are sent."""
        track = self._desk.current
        if track is not None and track.actor == self.link:  # as nearly always
            track.step.append(FramesNote(self._sent, frames))
            return
        track = self._track()
        if track is not None and self._records(track):
            track.frames(self._sent, frames)

    # -- whose it is -----------------------------------------------------------------------------------

    def _track(self) -> SessionRecorder | None:
        """The track of what goes out now; None if that is nobody's, and what is nobody's is not recorded."""
        if self.session:
            return self._recorder.of(self.session)
        track = self._desk.current or self._home
        if track is None and (self._upstream is not None or self._recorder.everything):
            self._is_nobodys()
            return self._recorder.own
        return track

    def _records(self, track: SessionRecorder) -> bool:
        return self._upstream is not None or self._recorder.everything or track.actor == self.link

    def _settle(self) -> None:
        """The step is over."""
        self._is_nobodys()
        track = self._desk.current
        self._desk.current = self._desk.speaking = None
        if track is not None:
            track.acted()

    def _is_nobodys(self) -> None:
        """What reached no session is the route's, unless it names one."""
        frames, self._frames = self._frames, ()
        command, self._command = self._command, None
        if frames and (self._upstream is not None or self._recorder.everything):
            (self._meant(frames) or self._recorder.own).frames(self._received, frames)
        if command is not None and self._recorder.everything:
            self._recorder.own.command(self.link, command)

    def _meant(self, frames: Sequence[Frame]) -> SessionRecorder | None:
        """The track of the session that these frames of a backend name."""
        if self._upstream is None:
            return None
        step: Step[Event] = Step()
        self._upstream.events.receive(frames, step)
        found = (self._recorder.of(self._recorder.find_id(burst.session)) for burst in step.bursts if burst.session)
        return next((track for track in found if track is not None), None)
