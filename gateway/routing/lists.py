"""Answer the clients that ask for the list of sessions: those that are open here, and those that the backend has.

A client whose listener shows one session gets that session, or what the directory of its listener has.
"""

from __future__ import annotations

from dragoman.gateway.backends.kind import BackendKind
from dragoman.gateway.link import Link
from dragoman.gateway.routing.catch_ups import DoWork
from dragoman.gateway.routing.session_index import Rows, completed
from dragoman.gateway.routing.session_list import ListedRow, WantedPage
from dragoman.gateway.routing.sessions import Sessions
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical.commands import ListSessions
from dragoman.mappings.canonical.events import SessionsListed
from dragoman.mappings.canonical.values import SessionSummary


class Lists:
    """The lists of sessions of one route."""

    def __init__(self, sessions: Sessions, backend: BackendKind, do_work: DoWork) -> None:
        self._sessions = sessions
        self._backend = backend
        self._do_work = do_work

    def tell_page(self, link: Link, command: ListSessions) -> None:
        """Answer with a page, once the backend has told the sessions that it has."""
        self._backend.list_sessions(link, command, lambda rows: self._tell(link, command, rows))

    def _tell(self, link: Link, command: ListSessions, rows: Rows) -> None:
        def tell(page: SessionsListed | None) -> None:
            if page is not None:
                link.send([page])
            else:  # the first page again would be paged through for ever
                link.refuse(command.request, "invalid", "unknown cursor")

        open_rows, other_rows = self._divide(link, rows)
        wanted = WantedPage(
            principal=link.principal,
            silent=link.dialect.lists_silent,
            command=command,
            row_of=self._row_of,
            open_rows=open_rows,
            other_rows=other_rows,
        )
        self._do_work(link, self._sessions.list.take_page(wanted, tell))

    def _divide(self, link: Link, rows: Rows) -> tuple[dict[str, ListedRow], list[ListedRow]]:
        """Return the rows of sessions that are open here, by their ids, and of others that the client sees."""
        open_rows: dict[str, ListedRow] = {}
        others: list[ListedRow] = []
        stored = self._sessions.upstream.stores_history
        for row in rows:
            session = self._find_open(row)
            if self._sessions.past.is_hidden(row.session) or self._sessions.is_foreign(link, row.session):
                continue
            if session is not None:
                open_rows[session.state.id] = self._listed(completed(session, row, stored=stored), session)
            else:
                others.append(self._listed(row))
        return open_rows, others

    def _find_open(self, row: SessionSummary) -> Session | None:
        """Return the session of a row that is open here: under the id that its backend gave it, or an older one."""
        names = (row.session, *self._sessions.upstream.public_ids(row.session, row.ext))
        return next(filter(None, map(self._sessions.index.find_session, names)), None)

    def _row_of(self, session: Session) -> ListedRow | None:
        """Return the row of an open session; None if no list shows it."""
        row = self._backend.row_of(session)
        return self._listed(row, session) if self._backend.is_worth_listing(row) else None

    def _listed(self, row: SessionSummary, session: Session | None = None) -> ListedRow:
        exists = session is not None and session.state.backend_ids is not None and self._sessions.upstream.lists_silent
        return ListedRow(row=row, is_shown=bool(row.messages or row.title) or exists)
