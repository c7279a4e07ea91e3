"""Sessions of a backend that no client uses: their list rows, and those that events of the backend have created.

A pando names its sessions once for each connection, and never again. It may have thousands of them. So its list makes
no session: each row is kept, like that of a session that the gateway has forgotten. Clients see all of them in lists. A
session is made when a client names it, or when the backend reports something of it.

A backend may announce any number of sessions. At most ANNOUNCED_MAX of them are kept: with one more, the first is
forgotten. Its row stays in lists, and it is made again with the next event or client that names it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter

from msgspec import structs

from dragoman.adapters.base import do_nothing
from dragoman.gateway.backends.kind import MakeBackend, SessionOpener
from dragoman.gateway.backends.list_wait import ListWait
from dragoman.gateway.link import Link
from dragoman.gateway.routing.session_index import Rows
from dragoman.gateway.routing.sessions import Sessions
from dragoman.gateway.session.session import Session
from dragoman.mappings.bounded import remember
from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.commands import ListSessions
from dragoman.mappings.canonical.events import HistorySnapshot, SessionClosed, SessionUpdated
from dragoman.mappings.canonical.values import Failure, SessionSummary
from dragoman.mappings.dialect import Dialect, Loss

ROWS_MAX = 10_000  # rows of about 1 KB each; the row that was added first is dropped first
TOO_MANY_ROWS = f"more than {ROWS_MAX:,} sessions of a backend that nobody uses"
TITLE_MAX = 1_000  # characters of the title in a kept row: a session without a title has its first input there
DELETED_KEPT = 1024  # newest deleted sessions
ANNOUNCED_MAX = 1024  # sessions: together they count as 16 MiB in `memory`
TOO_MANY = Failure(cause="busy", text=f"the backend reported more than {ANNOUNCED_MAX:,} further sessions")

MAKES_NO_SESSION = (HistorySnapshot, SessionClosed)
"""Events about sessions that were asked for, or are over."""


class UnusedRows:
    """List rows of unused sessions, found by every name that clients have for a session.

    `on_removed` is called with the id of each removed row.
    """

    def __init__(
        self,
        dialects: Callable[[], Mapping[str, Dialect]],
        on_removed: Callable[[str], None] = do_nothing,
    ) -> None:
        self._dialects = dialects
        self._on_removed = on_removed
        self._rows: dict[str, SessionSummary] = {}  # session id -> its row
        self._ids: dict[str, str] = {}

    def add_row(self, row: SessionSummary) -> SessionSummary | None:
        """Keep the row of a session; return the oldest row if that was dropped to make room."""
        self._rows[row.session] = row
        self._ids |= dict.fromkeys(self._names(row), row.session)
        if len(self._rows) > ROWS_MAX:
            return self.remove_row(next(iter(self._rows)))
        return None

    def remove_row(self, name: str) -> SessionSummary | None:
        """Remove the row of a session that is open again, or gone; return it if there was one."""
        row = self._rows.pop(self._ids.get(name, ""), None)
        for known in self._names(row) if row is not None else ():
            self._ids.pop(known, None)
        if row is not None:
            self._on_removed(row.session)
        return row

    def rows(self) -> list[SessionSummary]:
        return list(self._rows.values())

    def keep_only(self, ids: set[str]) -> None:
        """Remove the rows of all sessions but these."""
        for gone in self._rows.keys() - ids:
            self.remove_row(gone)

    def _names(self, row: SessionSummary) -> list[str]:
        shown = [dialect.public_ids(row.session, row.ext) for dialect in [*self._dialects().values()]]
        return [row.session, *(name for names in shown for name in names)]


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
        self._unused = UnusedRows(self._services.dialects, sessions.list.drop_row)
        self._list = ListWait(self._services)

    def list_sessions(self, link: Link, command: ListSessions, send_rows: Callable[[Rows], None]) -> None:
        self._list.when_listed(partial(super().list_sessions, link, command, send_rows))

    def find_session(self, name: str) -> Session | None:
        row = self._unused.remove_row(name)
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
        if self.is_worth_listing(row):
            self._sessions.list.keep_row(owner, row)
        if self._unused.add_row(row) is not None:
            self._services.ledger.record([Loss(kind="SessionsListed", field="sessions", why=TOO_MANY_ROWS)])

    def _newest(self) -> Session | None:
        """Return the backend's session with the latest event.

        A session without a UUID comes last: a pando has such sessions for sub-agents and titles. Names are asked of the
        newest ones alone.
        """
        live = [s.state for s in self._sessions.index if s.state.backend_ids is not None]
        known = [(state.updated_at, state.id, state.backend_ids) for state in live]
        known += [(row.updated_at, row.session, row.ext) for row in self._unused.rows()]
        if not known:
            return None
        known.sort(key=itemgetter(0), reverse=True)
        named = (own for _, own, ext in known if own in self._sessions.upstream.public_ids(own, ext))
        newest = next(named, known[0][1])
        return self._sessions.index.find_session(newest) or self.find_session(newest)
