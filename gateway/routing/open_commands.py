"""Open and resume sessions for clients."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.gateway.backends.kind import BackendKind
from dragoman.gateway.link import Link, opening_trace
from dragoman.gateway.observability import audit
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.routing.quota import Refused
from dragoman.gateway.routing.session_queries import SessionQueries, refuse_unknown
from dragoman.gateway.routing.sessions import Sessions
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical.commands import OpenSession, ResumeSession
from dragoman.mappings.canonical.events import Reply, SessionActivated
from dragoman.mappings.dialect import Loss

ID_IN_USE = "sqlite3: constraint failed: UNIQUE constraint failed: sessions.id"
"""The words of a real pando, the one dialect whose clients choose ids."""


class OpenCommands:
    """The commands of clients that open or resume a session of one route."""

    def __init__(self, sessions: Sessions, backend: BackendKind, queries: SessionQueries, ledger: Ledger) -> None:
        self._sessions = sessions
        self._backend = backend
        self._queries = queries
        self._ledger = ledger

    def open_session(self, link: Link, command: OpenSession) -> None:
        """Open a session for a client, unless the id that it chose is in use."""
        if command.session and self._sessions.in_use(link, command.session):
            link.refuse(command.request, "busy", ID_IN_USE)
        else:
            self._show_opened(link, command, lambda: self._backend.open_session(link, command))

    def resume_session(self, link: Link, command: ResumeSession) -> None:
        """Show a client the session that it resumes; one that is not open here is asked of the backend."""
        session = self._queries.find_session(link, command.session)
        self._count_lost_history(link, command, session)
        if session is not None:
            self._queries.show_session(link, session, command.request, command.agent)
            session.describe(SessionActivated)
        elif self._sessions.past.is_hidden(command.session):
            refuse_unknown(link, command)
        else:
            self._show_opened(link, command, lambda: self._backend.resume_session(link, command))

    def _count_lost_history(self, link: Link, command: ResumeSession, session: Session | None) -> None:
        """Count the history that a client brings along as lost, if the session does not get it."""
        upstream = self._sessions.upstream
        brought, takes = link.dialect.brings_history(command), upstream.takes_history is not None
        if brought and (session is not None or not takes):
            why = "what is open here gets no other history" if takes else "the backend takes none"
            loss = Loss(kind="ResumeSession", field="history", why=why, count=brought)
            own = session.state.id if session is not None else ""
            self._ledger.record([loss], session=own, source=link.dialect.name, target=upstream.name)

    def _show_opened(
        self, link: Link, command: OpenSession | ResumeSession, find: Callable[[], Session | None]
    ) -> None:
        """Show the session that `find` returns, or answer why there is none; with None the backend is asked."""
        try:
            session = find()
        except Refused as refused:
            audit.refuse(link, refused.failure.text, command=type(command).__name__)
            link.send([Reply(request=command.request, failure=refused.failure)])
            return
        if session is None:
            return
        if session.state.id not in link.sessions:  # a repeated open does nothing, and can be had without end
            audit.note("open", link, session=session.state.id)
        if command.agent:
            session.state.agent = command.agent
        session.state.trace = session.state.trace or opening_trace(link, command)
        if isinstance(command, OpenSession):
            self._sessions.choose(link, session, command.session)
            session.describe()
        self._queries.show_session(link, session, command.request, command.agent)
