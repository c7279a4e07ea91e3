"""Sessions of a backend that no client uses: their list rows, and those that events of the backend have created.

A pando names its sessions once for each connection, and never again. It may have thousands of them. So its list makes
no session: each row is kept (routing/session_list.py), like that of a session that the gateway has forgotten. Clients
see all of them in lists. A session is made when a client names it, or when the backend reports something of it.

A backend may announce any number of sessions. At most ANNOUNCED_MAX of them are kept: with one more, the first is
forgotten. Its row stays in lists, and it is made again with the next event or client that names it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter

from msgspec import structs

from dragoman.gateway.backends.kind import MakeBackend, SessionOpener
from dragoman.gateway.backends.list_wait import ListWait
from dragoman.gateway.link import Link
from dragoman.gateway.routing.session_index import Rows
from dragoman.gateway.routing.session_list import ROWS_MAX
from dragoman.gateway.routing.sessions import Sessions
from dragoman.gateway.session.session import Session
from dragoman.mappings.bounded import remember
from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.commands import ListSessions
from dragoman.mappings.canonical.events import HistorySnapshot, SessionClosed, SessionUpdated
from dragoman.mappings.canonical.values import Failure, SessionSummary
from dragoman.mappings.dialect import Loss

TOO_MANY_ROWS = f"more than {ROWS_MAX:,} sessions of a backend that nobody uses"
TITLE_MAX = 1_000  # characters of the title in a kept row: a session without a title has its first input there
DELETED_KEPT = 1024  # newest deleted sessions
ANNOUNCED_MAX = 1024  # sessions: together they count as 16 MiB in `memory`
TOO_MANY = Failure(cause="busy", text=f"the backend reported more than {ANNOUNCED_MAX:,} further sessions")

MAKES_NO_SESSION = (HistorySnapshot, SessionClosed)
"""Events about sessions that were asked for, or are over."""


class AnnouncedSessions:
    """The announced sessions of one route, the first one first; some of them may have clients by now."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._closed = False
        self._deleted: dict[str, None] = {}  # a pando goes on with the run of a session that was deleted

    def add_session(self, session: Session) -> None:
        """Add a new session. If there are too many, remove the first one, and forget it if no client uses it."""
        self._sessions[session.state.id] = session
        if len(self._sessions) > ANNOUNCED_MAX:
            first = self._sessions.pop(next(iter(self._sessions)))
            if first.presence.unused:
                first.give_up(TOO_MANY)
                first.presence.suspend(TOO_MANY.text)

    def note_deleted(self, name: str) -> None:
        """Note that the backend deleted the session that it calls `name`."""
        remember(self._deleted, name, None, DELETED_KEPT)

    def may_announce(self, name: str, events: Sequence[Event]) -> bool:
        """Return True if these events of the backend may create an unknown session."""
        if any(isinstance(event, SessionUpdated) for event in events):
            self._deleted.pop(name, None)
        makes = not all(isinstance(event, MAKES_NO_SESSION) for event in events)
        return makes and name not in self._deleted and not self._closed

    def remove_session(self, session: Session) -> None:
        self._sessions.pop(session.state.id, None)

    def close(self) -> None:
        """Announce no further session: the end of the connection releases events of up to 2,048 of them."""
        self._closed = True


class RememberingOpener(SessionOpener):
    """A backend that names its sessions once for each connection. The rows of unused sessions are kept."""

    def __init__(self, sessions: Sessions, make_backend: MakeBackend) -> None:
        super().__init__(sessions, make_backend)
        self._list = ListWait(self._services)

    def list_sessions(self, link: Link, command: ListSessions, send_rows: Callable[[Rows], None]) -> None:
        self._list.when_listed(partial(super().list_sessions, link, command, send_rows))

    def find_session(self, name: str) -> Session | None:
        row = self._sessions.list.take_row(name)
        if row is None:
            return None
        (known_as, *_) = self._sessions.upstream.public_ids(row.session, row.ext)
        session = self._make_listed(known_as)
        self._describe(session, row)
        return session

    @abstractmethod
    def _make_listed(self, name: str) -> Session:
        """Make the session that the backend calls `name`."""

    def _describe(self, session: Session, row: SessionSummary) -> None:
        """Update a session from the backend's list row."""
        state = session.state
        state.listed = row
        state.title = row.title or state.title
        state.updated_at = max(state.updated_at, row.updated_at)
        self._sessions.list.note_changed(state.id)

    def _forget(self, session: Session) -> None:
        """Keep the row of a session that is about to be forgotten, if the backend has the session."""
        if session.state.backend_ids is not None:
            self._keep_row(session.summary(), session.state.owner)

    def _keep_row(self, row: SessionSummary, owner: str) -> None:
        """Store the row of an unused session of the backend."""
        row = structs.replace(row, title=row.title[:TITLE_MAX])
        if self._sessions.list.keep_row(owner, row, is_listed=self.is_worth_listing(row)) is not None:
            self._services.ledger.record([Loss(kind="SessionsListed", field="sessions", why=TOO_MANY_ROWS)])

    def _newest(self) -> Session | None:
        """Return the backend's session with the latest event.

        A session without a UUID comes last: a pando has such sessions for sub-agents and titles. Names are asked of the
        newest ones alone.
        """
        live = [s.state for s in self._sessions.index if s.state.backend_ids is not None]
        known = [(state.updated_at, state.id, state.backend_ids) for state in live]
        known += [(row.updated_at, row.session, row.ext) for row in self._sessions.list.kept_rows()]
        if not known:
            return None
        known.sort(key=itemgetter(0), reverse=True)
        named = (own for _, own, ext in known if own in self._sessions.upstream.public_ids(own, ext))
        newest = next(named, known[0][1])
        return self._sessions.index.find_session(newest) or self.find_session(newest)
