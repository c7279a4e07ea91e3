"""BackendKind, the interface between a router and its backend (docs/design.md, section 5).

    kind              a backend that                             sessions come from
    SingleKind        holds one session                          the endpoint
    PodsKind          is a directory of pods, one session each   the folders of the directory
    SharedKind        carries many sessions over one connection  its list, its events, and clients
    ConversationsKind opens a conversation for each session      clients, and the list of its store
    ReplayedKind      plays a recording to each session          clients

`BackendKind` itself behaves as a backend that has no sessions beside those that are open here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from msgspec import structs

from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.link import Link, opening_trace
from dragoman.gateway.observability.trace_context import TraceContext, add_trace
from dragoman.gateway.routing.policy import Refused
from dragoman.gateway.routing.session_index import Rows
from dragoman.gateway.routing.sessions import Sessions
from dragoman.gateway.services import Services
from dragoman.gateway.session.ports import Backend, BackendEvents
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import (
    GetSession,
    ListSessions,
    OpeningCommand,
    OpenSession,
    ResumeSession,
)
from dragoman.mappings.canonical.values import Failure, SessionSummary

NAME_SHOWN = 200  # characters of a session's name that its refusal repeats; a client may write 1 MiB

Opening = TypeVar("Opening", bound=OpenSession | ResumeSession)
MakeBackend = Callable[[BackendEvents, Endpoint], Backend]
"""Makes the backend of a session at an endpoint."""


class BackendKind(ABC):
    """The backend of one route, with a connection for each session."""

    cannot_delete = ""
    """The reason why a session of this backend cannot be deleted; "" if the gateway may forget it."""

    def __init__(self, sessions: Sessions, make_backend: MakeBackend) -> None:
        self._sessions = sessions
        self._make_backend = make_backend
        self._control: Session | None = None

    @property
    def _services(self) -> Services:
        """The services in force: a reload may change the limits."""
        return self._sessions.services

    # -- known -----------------------------------------------------------------------------------------

    def when_known(self, _link: Link, _command: Command | None, action: Callable[[], None]) -> bool:
        """Call `action`, which performs a command or shows a new link its session, once the sessions are known.

        Return False if too many actions wait already.
        """
        action()
        return True

    def when_described(self, _link: Link, action: Callable[[], None]) -> None:
        """Call `action` once the backend has described its session, for a link that does not attach."""
        action()

    def subscribed(self) -> None:  # noqa: B027  # most kinds connect when a command needs them
        """Connect for a client that subscribed to everything, if one connection carries all sessions."""

    # -- list ------------------------------------------------------------------------------------------

    def list_sessions(self, link: Link, _command: ListSessions, send_rows: Callable[[Rows], None]) -> None:
        """Call `send_rows` with the backend's sessions, once they are known; perhaps only those of the wanted page."""
        self.when_described(link, lambda: send_rows(()))

    def listed(self, _name: str) -> SessionSummary | None:
        """Return the row of a session that a list has shown to clients under this name."""
        return None

    def row_of(self, session: Session) -> SessionSummary:
        """Return the row of a session that is open here."""
        return session.summary()

    def is_worth_listing(self, _row: SessionSummary) -> bool:
        """Return True if a list may show this row."""
        return True

    # -- find ------------------------------------------------------------------------------------------

    def find_session(self, _name: str) -> Session | None:
        """Return the session of this name that the backend has and that is not open here."""
        return None

    @abstractmethod
    def session_for_listener(self, _wanted: str, _principal: str) -> Session | None:
        """Return the session for a listener that asks for `new`, `latest` or the name of one that is not open here.

        None: the backend has none for it now. Raise Refused if none may be made for a client of this principal.
        """

    def takes_further_clients(self, _session: Session) -> bool:
        """Return True if further clients of a listener get this session, which others of them share already."""
        return True

    # -- open ------------------------------------------------------------------------------------------

    @abstractmethod
    def open_session(self, link: Link, command: OpenSession | ResumeSession) -> Session | None:
        """Return the session for a client that opens one, or None if the backend is asked for it; raise Refused."""

    def agent_of(self, _session: Session, wanted: str) -> str:
        """Return the agent id for the answer to a client that asked for the agent `wanted` and got this session."""
        return wanted

    def without_session_choice(self, command: OpenSession | ResumeSession) -> OpenSession | ResumeSession:
        """Return the command without the fields that chose the session, so that they are not counted as lost."""
        return command

    def resume_session(self, link: Link, command: ResumeSession) -> Session | None:
        """Return or ask for a session that a client resumes and that is not open here; raise Refused if it cannot."""
        if not link.dialect.resumes_unknown:
            raise Refused(not_found(command.session))
        return self.open_session(link, command)

    def get_session(self, _link: Link, command: GetSession) -> None:
        """Ask the backend for a session that is not open here; raise Refused if it has no others."""
        raise Refused(not_found(command.session))

    def request_session(self, _link: Link, _command: Command) -> bool:
        """Ask the backend for the session of a command, then perform it.

        Return False if the backend has no further sessions.
        """
        return False

    # -- the backend itself ----------------------------------------------------------------------------

    def control(self) -> Session:
        """Return the session for commands that concern no session; no client attaches to it.

        It has a connection of its own (docs/design.md, section 6), which is made when it is first needed. If all
        sessions share one, it uses that.
        """
        if self._control is None:
            self._control = self._sessions.make_unlisted(self._services.new_id(), self._connect_control)
        return self._control

    def _connect_control(self, control: Session) -> Backend:
        return self._connect_upstream(control)

    def _connect_upstream(self, session: BackendEvents) -> Backend:
        """Make the connection of a session to the route's upstream."""
        return self._make_backend(session, self._sessions.route.upstream)

    def close(self) -> None:
        """Close the connections that belong to no session of a client."""
        if self._control is not None:
            self._control.stop()


class SessionOpener(BackendKind):
    """A backend that opens sessions for clients."""

    def open_session(self, link: Link, command: OpenSession | ResumeSession) -> Session | None:
        self._ask(link, command)
        return None

    def resume_session(self, link: Link, command: ResumeSession) -> Session | None:
        self._seek(link, command)
        return None

    def get_session(self, link: Link, command: GetSession) -> None:
        self._seek(link, command)

    def _seek(self, link: Link, command: GetSession | ResumeSession, next_command: Command | None = None) -> None:
        """Ask the backend for a session by the client's name for it, then perform the command `next_command`."""
        self._ask(link, command, next_command)

    @abstractmethod
    def _connect(self, session: Session) -> Backend:
        """Make the backend of a new session."""

    def _new_session(self, link: Link, command: OpeningCommand) -> Session:
        """Return a new session, which gets its id once the backend has opened it; raise Refused if there is no room."""
        resumed = command.session if isinstance(command, ResumeSession) else ""
        return self._sessions.make_unopened(link, self._connect, resumed)

    def _ask(self, link: Link, command: OpeningCommand, next_command: Command | None = None) -> None:
        """Ask the backend to open a session, and perform the command `next_command` once it is open.

        A name that a list gave to a client is translated into the backend's own. The backend never hears the name of
        another user's session: an unused name makes it answer as for an unknown one, after the same time.
        """
        if not isinstance(command, OpenSession) and self._sessions.is_foreign(link, command.session):
            command = structs.replace(command, session=self._services.new_id(), ext=None)
        listed = self.listed(command.session)
        if listed is not None and isinstance(command, GetSession):
            command = ResumeSession(request=command.request, session=listed.session)
        elif listed is not None:
            command = structs.replace(command, session=listed.session)
        try:
            session = self._new_session(link, command)
        except Refused as refused:  # the backend may have been asked first, so no caller is above
            refused.send_to(link, command)
            return
        if isinstance(command, OpenSession):
            self._sessions.choose(link, session, command.session)
        if listed is not None:
            session.state.listed, session.state.updated_at = listed, listed.updated_at
        session.delivery.enter()
        session.state.hops = link.hops
        if isinstance(command, GetSession):
            session.state.trace = link.trace
        else:
            session.state.trace = opening_trace(link, command)
            # before the gateway adds what the client left out
            self._services.ledger.count_partial(link.dialect, self._sessions.upstream, [command], commands=True)
            command = self._with_trace(self._sessions.complete(command), session.state.trace)
        session.commands.open_session(link, command, next_command)

    def _with_trace(self, command: Opening, trace: TraceContext | None) -> Opening:
        """Return a command that opens a session with its trace context, if the backend has a field for it."""
        lossy = self._sessions.upstream.commands.from_canonical.lossy.get(type(command))
        if trace is None or (lossy is not None and "metadata" in lossy.fields):
            return command
        return structs.replace(command, metadata=add_trace(command.metadata, trace))


def not_found(name: str, thing: str = "session") -> Failure:
    """Return the failure of a command that names something unknown; `thing` says what, such as `pod`."""
    shown = repr(name) if len(name) <= NAME_SHOWN else f"{name[:NAME_SHOWN]!r}..."
    return Failure(cause="not_found", text=f"{thing} {shown} not found")
