"""Which session: brings each command of a downstream link to the session that it means (design.md, section 5).

One router a route. It answers what needs no session (ping, lists), opens and finds sessions, and attaches links to
them. A foreign session is answered exactly like an unknown one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from uuid import NAMESPACE_URL, uuid5

from gateway.config import Limits, Route
from gateway.ledger import Ledger
from gateway.link import Link
from gateway.session import Session
from gateway.timers import Later
from gateway.upstream import Backend
from mappings.canonical import Command, SessionState
from mappings.canonical.commands import GetSession, ListSessions, OpenSession, Ping, ResumeSession
from mappings.canonical.events import Pong, Reply, SessionOpened, SessionsListed
from mappings.canonical.unmapped import Unmapped
from mappings.canonical.values import Backend as About
from mappings.canonical.values import Failure
from mappings.dialect import Burst, Clock, Dialect, NewId

__all__ = ["Router", "session_id"]

LIST_DEFAULT, LIST_MAX = 50, 200  # smooth sheet, section 3: list_conversations


def session_id(route: str, endpoint: str) -> str:
    """The id of the one session behind `endpoint` (translation.md 3.1): the same after a restart."""
    return str(uuid5(NAMESPACE_URL, f"dragoman:{route}:{endpoint}"))


class Router:
    """The sessions of one route."""

    def __init__(
        self, route: Route, make_backend: Callable[[Session], Backend], dialects: Callable[[], dict[str, Dialect]], *,
        limits: Limits, ledger: Ledger, clock: Clock, new_id: NewId, later: Later,
    ) -> None:  # fmt: skip
        self._route = route
        self._clock = clock
        self._sessions: dict[str, Session] = {}
        self._shown: dict[str, Session] = {}
        self._dialects = dialects
        self._make_backend = make_backend
        self._limits = limits
        self._ledger = ledger
        self._new_id = new_id
        self._later = later
        self._upstream = dialects()[route.upstream.dialect]
        self._holds_one = self._upstream.one_session
        self._name = _pod_name(route)
        if self._holds_one:
            self._make(session_id(route.name, str(route.upstream)))

    def _make(self, id: str) -> Session:
        """A new session with its way to the backend, connected to when it is needed."""
        agent = self._route.upstream.option("agent") or str(uuid5(NAMESPACE_URL, f"dragoman:{self._route.name}"))
        opening = OpenSession(agent=agent, user_name=self._route.upstream.option("user"))
        session = Session(
            SessionState(id=id, opened_at=self._clock(), opening=opening, backend=About(name=self._name)),
            route=self._route, upstream=self._upstream, limits=self._limits, ledger=self._ledger, clock=self._clock,
            new_id=self._new_id, later=self._later,
        )  # fmt: skip
        if not self._holds_one:
            session.lobby.open()  # a new conversation: there is nothing to wait for
        session.backend = self._make_backend(session)
        session.changed = self._renamed
        self._add(session)
        return session

    def _renamed(self, session: Session) -> None:
        """The backend gave the session its ids, or would not open it."""
        if session.state.backend_ids is None:
            self._drop(session)
        else:
            self._add(session)

    def _drop(self, session: Session) -> None:
        session.stop()
        del self._sessions[session.state.id]
        self._shown = {name: other for name, other in self._shown.items() if other is not session}

    def _add(self, session: Session) -> None:
        self._sessions[session.state.id] = session
        self._shown[session.state.id] = session
        for dialect in self._dialects().values():
            self._shown.update(dict.fromkeys(dialect.shown(session.state.id, session.state.backend_ids), session))

    @property
    def sessions(self) -> list[Session]:
        """All sessions of the route."""
        return list(self._sessions.values())

    # -- links -----------------------------------------------------------------------------------------

    def connected(self, link: Link) -> None:
        """A peer connected. A dialect whose backends hold one session shows it at once."""
        link.open()
        if link.dialect.one_session:
            session = self._the_session() if self._holds_one else self._make(self._new_id())
            session.state.owner = link.principal
            session.backend.start()
            session.lobby.enter(link)

    def gone(self, link: Link) -> None:
        """A peer went away."""
        for session in self.sessions:
            session.detach(link)
            if session.vacant and not self._holds_one:
                self._drop(session)

    def drained(self, link: Link) -> None:
        """A peer has read everything."""
        for session in self.sessions:
            session.delivery.drained(link)

    def receive(self, link: Link, bursts: list[Burst]) -> None:
        """A peer said this. One that speaks before it was shown anything is shown what there is."""
        for session in self.sessions:
            session.lobby.admit(link)
        for burst in bursts:
            for command in burst.items:
                self._command(link, command)

    # -- commands --------------------------------------------------------------------------------------

    def _command(self, link: Link, command: Command) -> None:
        match command:
            case Ping():
                link.send([Pong(request=command.request, at=self._clock())])
            case ListSessions():
                link.send([self._list(link, command)])
            case OpenSession():
                self._open(link, command)
            case ResumeSession():
                session = self._find(link, command.session)
                if session is not None:
                    self._show(link, session, command.request, command.agent)
                elif link.dialect.one_session:  # it names a pod that must exist; smooth opens what it cannot find
                    self._not_found(link, command)
                else:
                    self._open(link, command)
            case GetSession():
                self._get(link, command)
            case Unmapped():
                failure = Failure(cause="unsupported", text=f"unknown: {command.tag}")
                link.send([Reply(request=command.request, failure=failure)])
            case _:
                session = self._find(link, command.session)
                if session is None:
                    self._not_found(link, command)
                    return
                self._attach(link, session)
                session.command(link, command)

    def _list(self, link: Link, command: ListSessions) -> SessionsListed | Reply:
        rows = [s.summary() for s in self.sessions if s.state.owner == link.principal]
        rows = [row for row in rows if row.messages and command.query.lower() in row.title.lower()]
        rows.sort(key=lambda row: -row.updated_at)
        start = next((i + 1 for i, row in enumerate(rows) if row.session == command.cursor), 0)
        if command.cursor and not start:
            return Reply(request=command.request, failure=Failure(cause="invalid", text="unknown cursor"))
        limit = min(command.limit or LIST_DEFAULT, LIST_MAX)
        shown = rows[start : start + limit]
        more = start + limit < len(rows)
        return SessionsListed(
            request=command.request, sessions=tuple(shown), next_cursor=shown[-1].session if more and shown else None
        )

    def _open(self, link: Link, command: OpenSession | ResumeSession) -> None:
        """A backend that holds one session gives that one to its owner and is busy for everybody else."""
        if not self._holds_one:
            self._ask_backend(link, command)
            return
        session = self._the_session()
        if session.state.owner != link.principal:
            failure = Failure(cause="busy", text="the backend holds one session, and it is somebody else's")
            link.send([Reply(request=command.request, failure=failure)])
            return
        if command.agent:
            session.state.agent = command.agent
        self._show(link, session, command.request, command.agent)

    def _ask_backend(self, link: Link, command: OpenSession | ResumeSession | GetSession) -> None:
        """A backend that opens conversations is asked for this one, under a session of its own."""
        session = self._make(self._new_id())
        session.state.owner = link.principal
        session.open(link, command)

    def _get(self, link: Link, command: GetSession) -> None:
        session = self._find(link, command.session)
        if session is not None:
            self._show(link, session, command.request, "")
        elif self._holds_one or command.session in self._shown:  # a foreign session is as unknown as any
            self._not_found(link, command)
        else:
            self._ask_backend(link, command)

    def _show(self, link: Link, session: Session, request: str, agent: str) -> None:
        state = session.state
        if link.id in session.delivery.attachments:
            opened = SessionOpened(
                request=request, session=state.id, agent=agent or state.agent, title=state.title, status=state.status,
                ext=state.backend_ids,
            )  # fmt: skip
            link.send([opened])
        else:
            session.attach(link, request)

    def _attach(self, link: Link, session: Session) -> None:
        """Any action that names a session attaches."""
        if link.id not in session.delivery.attachments:
            session.attach(link)

    def _find(self, link: Link, name: str) -> Session | None:
        """The session that `link` calls `name`, or its own for ""; None if there is none that it may see."""
        if not name:
            mine = [session for session in self.sessions if link.id in session.delivery.attachments]
            return mine[0] if len(mine) == 1 else None
        session = self._shown.get(name)
        return session if session is not None and session.state.owner == link.principal else None

    def _not_found(self, link: Link, command: Command) -> None:
        failure = Failure(cause="not_found", text=f"session {command.session!r} not found")
        link.send([Reply(request=command.request, failure=failure)])

    def _the_session(self) -> Session:
        return next(iter(self._sessions.values()))


def _pod_name(route: Route) -> str:
    """The name under which pod clients know the session: the folder of its socket (pod sheet, section 2)."""
    for endpoint in route.listen:
        if endpoint.transport == "unix":
            path = PurePath(endpoint.address)
            return path.parent.name if path.name == "sock" else path.stem
    return ""
