"""A backend that opens a conversation for each session, over a connection of its own (docs/design.md, section 5).

A HistoryLoader is a proxy between a session and its connection, and reads whole histories. A recording has no
conversations beside those that are open here, so it needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from dragoman.gateway.backends.catalog import BackendCatalog
from dragoman.gateway.backends.history_loader import HistoryLoader
from dragoman.gateway.backends.kind import MakeBackend, SessionOpener
from dragoman.gateway.ingress import LATEST, NEW
from dragoman.gateway.link import Link
from dragoman.gateway.routing.ids import canonical_id
from dragoman.gateway.routing.session_index import Rows
from dragoman.gateway.routing.sessions import Sessions, join_session
from dragoman.gateway.session.ports import Backend
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical import Command, SessionState
from dragoman.mappings.canonical.commands import (
    OF_A_TURN,
    GetSession,
    ListSessions,
    RenameSession,
    ResumeSession,
)
from dragoman.mappings.canonical.values import SessionSummary


class ReplayedKind(SessionOpener):
    """A recording, or a backend in this process: it has no conversations but those that are open here."""

    def session_for_listener(self, wanted: str, principal: str) -> Session | None:
        resume = "" if wanted == NEW else wanted
        named = resume not in ("", LATEST)
        session = canonical_id(self._sessions.route.name, resume) if named else self._services.new_id()
        return self._sessions.make(session, partial(self._connect, resume=resume), principal=principal)

    def resume_session(self, link: Link, command: ResumeSession) -> Session | None:
        if not link.attaches:  # a caller activates an open session, and opens none
            self.get_session(link, GetSession(request=command.request, session=command.session))
            return None
        return super().resume_session(link, command)

    def _connect(self, session: Session, resume: str = "") -> Backend:
        session.pending.note_history()  # there is no history to wait for, whatever its listener asks for
        return self._connect_upstream(session)


class ConversationsKind(ReplayedKind):
    """A real backend of many conversations, which may store some that are not open here."""

    _catalog: BackendCatalog | None = None

    def __init__(
        self,
        sessions: Sessions,
        make_backend: MakeBackend,
        is_served: Callable[[SessionState], bool] | None = None,
    ) -> None:
        """Set `is_served` if there are several upstreams: it returns False for a session whose upstream is away."""
        super().__init__(sessions, make_backend)
        self._is_served = is_served

    def takes_further_clients(self, session: Session) -> bool:
        return self._is_served is None or self._is_served(session.state)

    def list_sessions(self, link: Link, command: ListSessions, send_rows: Callable[[Rows], None]) -> None:
        catalog = self._listable()
        if catalog is None:
            super().list_sessions(link, command, send_rows)
        else:
            catalog.ask(command.archived, send_rows)

    def listed(self, name: str) -> SessionSummary | None:
        return self._catalog.find_row(name) if self._catalog is not None else None

    def request_session(self, link: Link, command: Command) -> bool:
        upstream = self._sessions.upstream
        may_run = upstream.lost_turn == "reachable" and link.dialect.name == upstream.name
        # A session that is not open here has a turn only if its backend keeps turns.
        if not command.session or (isinstance(command, OF_A_TURN) and not may_run):
            return False
        self._seek(link, GetSession(request=command.request, session=command.session), command)
        return True

    def _seek(self, link: Link, command: GetSession | ResumeSession, next_command: Command | None = None) -> None:
        """Ask the backend for a session, after it has listed the names of its sessions.

        A smooth sessionId is derived from the canonical id, which may be derived from an id like `thr_...` of a
        codewhale 0.10.2. So only a list can tell which session it belongs to. The server itself finds a session by
        its own id, but not by the conversationId of a rename.
        """
        catalog, upstream = self._listable(), self._sessions.upstream
        by_listed_name = upstream.renames_listed and isinstance(next_command, RenameSession)
        is_own_name = link.dialect.name == upstream.name and not by_listed_name
        if is_own_name or self.listed(command.session) or catalog is None:
            self._ask(link, command, next_command)
            return
        ask = partial(self._ask, link, command, next_command)
        ask_later = self._sessions.postponed.postpone(link, ask, command, next_command)
        catalog.ask(True, lambda _rows: ask_later())

    def _listable(self) -> BackendCatalog | None:
        """Return the backend's store; None if it cannot be listed, or may hold sessions of other principals."""
        if not self._sessions.policy.shared or not self._sessions.upstream.commands.can_write_type(ListSessions):
            return None
        self.control()
        return self._catalog

    def _connect(self, session: Session, resume: str = "") -> Backend:
        loader = HistoryLoader(
            session,
            self._services,
            self._connect_upstream,
            resume=resume,
            taken=lambda conversation: self._resume(session, conversation),
            find=lambda listed: self._find_wanted(session, resume, listed),
            stored=self._sessions.upstream.stores_history,
        )
        if not resume:
            session.pending.note_history()  # a new conversation has no history to wait for
        return loader

    def _resume(self, session: Session, conversation: str) -> bool:
        """Give a session the id of the conversation that it is about to resume.

        If another session has the conversation open, move the clients there with what they wait for, and return True.
        """
        sessions = self._sessions
        own = canonical_id(sessions.route.name, conversation)
        other = sessions.index.find_session(conversation) or sessions.index.find_session(own)
        if other is None:
            sessions.rename_session(session, own)
        if other is None or other is session:
            return False
        join_session(sessions, session, other)
        return True

    def _find_wanted(self, session: Session, wanted: str, listed: Sequence[str]) -> str:
        """Return the conversation that a listener wants among these of the backend, "" if its clients may see none.

        A list tells which thread of a codewhale 0.10.2 has a derived id.
        """
        route, own = self._sessions.route.name, session.state.id
        found = listed[:1] if wanted == LATEST else [name for name in listed if canonical_id(route, name) == own]
        return next((name for name in found if self._may_resume(session, name)), "")

    def _may_resume(self, session: Session, conversation: str) -> bool:
        """Return True if no client of `session` would be shown a conversation of another owner."""
        sessions = self._sessions
        known = sessions.index.find_session(conversation)
        forgotten = sessions.past.owner_of(canonical_id(sessions.route.name, conversation))
        owner = known.state.owner if known is not None else forgotten
        return sessions.policy.shared or not owner or all(c.principal == owner for c in session.presence.clients)

    def _connect_control(self, control: Session) -> Backend:
        self._catalog = BackendCatalog(self._sessions.route.name, control, self._services, self._connect_upstream)
        return self._catalog
