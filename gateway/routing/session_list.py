"""The list of a route's sessions, newest first, in pages (docs/design.md, section 5).

The cost of a page depends on its size, not on the number of sessions. So the sessions are kept in the order of their
last change:

    a session is new or has changed   its id is noted; a token or a turn costs nothing more
    a list is asked for               the noted sessions are placed again, then one page is taken from the order
    a session is busy                 it stays noted: its text changes it without a note
    a session is forgotten            its last row takes its place, if the backend still has the session
    a backend lists a session         its row gets a place, and no session is made
    a client names such a session     its row leaves the list, and the session is made

A principal that sees only its own sessions has an order of its own. *Silent* sessions, without a message or a title,
are kept apart, because most clients are not shown them. Long work is done in slices, between which other links are
served.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from itertools import count

from msgspec import Struct

from dragoman.gateway.overload.fair_queue import StepBudget
from dragoman.gateway.routing.policy import Policy
from dragoman.gateway.routing.session_index import SessionIndex
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical.commands import ListSessions
from dragoman.mappings.canonical.events import SessionsListed
from dragoman.mappings.canonical.values import SessionSummary

LIST_DEFAULT, LIST_MAX = 50, 200  # docs/dialects/smooth.md, section 3: list_conversations
ROW = 512  # units of work (gateway/overload/fair_queue.py) of one session that is placed or looked at: about 5 us
PAGE = 4096  # units of a page beside its rows: about 40 us, with its frame and the answer to it
ROWS_MAX = 10_000  # kept rows of about 1 KB each; the row that was added first is dropped first
CHUNK = 64  # sessions that are taken from the order at a time: it may change between two slices

RowPlace = tuple[int, int, str]
"""The sort key of a session: its negative time, a unique number, and its id."""
RowGroup = tuple[str, bool]
"""The owner of sessions, and True if every client is shown them (False: silent sessions).

The owner is "" if all principals see all sessions.
"""
FIRST: RowPlace = (-(1 << 64), 0, "")


class ListedRow(Struct, frozen=True, kw_only=True):
    """A row that a list may show; only clients that are shown `silent` sessions see a row without `is_shown`."""

    row: SessionSummary
    is_shown: bool = True


class KeptRow(Struct, frozen=True):
    """The row of a session of the backend that is not open here. A list shows it only if it `is_listed`."""

    owner: str
    listed: ListedRow
    is_listed: bool


class WantedPage(Struct, frozen=True, kw_only=True):
    """A request for a page: the principal, whether its client is shown silent sessions, and the backend's rows.

    `row_of` returns the row of an open session, None if no list shows it.
    """

    principal: str
    silent: bool
    command: ListSessions
    row_of: Callable[[Session], ListedRow | None]
    open_rows: dict[str, ListedRow]
    """Rows of open sessions that the backend has just described, by the id of the session."""
    other_rows: Sequence[ListedRow]
    """Rows of sessions that are not open here."""


def page_size(command: ListSessions) -> int:
    """Return how many rows a client asks for."""
    return min(command.limit or LIST_DEFAULT, LIST_MAX)


class SessionList:
    """The sessions of `index` in the order of their last change, and rows of sessions that are not open here.

    Such a row is found by every name that clients have for its session.
    """

    def __init__(self, index: SessionIndex, policy: Policy, budget: StepBudget) -> None:
        self._index = index
        self._policy = policy
        self._budget = budget
        self._numbers = count()
        self._places: dict[str, tuple[RowGroup, RowPlace]] = {}
        self._orders: dict[RowGroup, list[RowPlace]] = {}
        self._kept: dict[str, KeptRow] = {}
        self._kept_ids: dict[str, str] = {}  # name -> id of a kept row
        self.changed: set[str] = set()
        """Ids of sessions that may have another place now."""
        policy.watch(self._regroup)

    def note_changed(self, id: str) -> None:
        """Note that the position of the session with this id, if it is open here, may have changed."""
        if self._index.live_session(id) is not None:
            self.changed.add(id)

    def _regroup(self) -> None:
        """Sort all sessions again, after a reload has changed who may see them."""
        self.changed.update(session.state.id for session in self._index)
        for own, kept in self._kept.items():
            if self._index.live_session(own) is None:
                self._place_kept(kept)

    def forget(self, id: str) -> None:
        """Remove a session that has ended, or that has another id now."""
        self.changed.discard(id)
        self._remove(id)
        if id in self._kept:
            self._place_kept(self._kept[id])

    def keep_row(self, owner: str, row: SessionSummary, *, is_listed: bool = True) -> SessionSummary | None:
        """Add the row of a session of the backend that is not open here, or is about to be forgotten.

        Return the oldest row if that was dropped to make room.
        """
        self._kept[row.session] = kept = KeptRow(owner, ListedRow(row=row), is_listed)
        self._kept_ids |= dict.fromkeys(self._index.names_of(row.session, row.ext), row.session)
        if self._index.live_session(row.session) is None:
            self._place_kept(kept)
        return self.take_row(next(iter(self._kept))) if len(self._kept) > ROWS_MAX else None

    def take_row(self, name: str) -> SessionSummary | None:
        """Remove the row of a session that is about to be opened, or that its backend has ended; return it if there was
        one.
        """
        kept = self._kept.pop(self._kept_ids.get(name, ""), None)
        if kept is None:
            return None
        row = kept.listed.row
        for known in self._index.names_of(row.session, row.ext):
            self._kept_ids.pop(known, None)
        if self._index.live_session(row.session) is None:
            self._remove(row.session)
        return row

    def kept_rows(self) -> list[SessionSummary]:
        return [kept.listed.row for kept in self._kept.values()]

    def keep_only(self, ids: set[str]) -> None:
        """Remove the kept rows of all sessions but these."""
        for gone in self._kept.keys() - ids:
            self.take_row(gone)

    def take_page(self, wanted: WantedPage, send_page: Callable[[SessionsListed | None], None]) -> Iterator[None]:
        """Call `send_page` with a page, or with None for an unknown cursor. Yield when the step has no units left."""
        self._budget.left -= PAGE
        yield from self._place_changed(wanted.row_of)
        start = self._start(wanted)
        if start is None:
            send_page(None)
            return
        command, size = wanted.command, page_size(wanted.command)
        query, rows = command.query.lower(), list[SessionSummary]()
        own = self._own_rows(wanted, start[0])
        for listed in merge(own, start[1], key=_age) if start[1] else own:
            row = listed.row
            is_shown = (wanted.silent or listed.is_shown) and (command.archived or not row.archived)
            if is_shown and query in row.title.lower():
                rows.append(row)
                if len(rows) > size:
                    break
            if self._spend():
                yield
        more = rows[size - 1].session if len(rows) > size else None
        send_page(SessionsListed(request=command.request, sessions=tuple(rows[:size]), next_cursor=more))

    def _spend(self) -> bool:
        """Count the work of one session; return True if the work of the step is used up."""
        self._budget.left -= ROW
        return self._budget.left <= self._budget.turn_end

    # -- the order -------------------------------------------------------------------------------------

    def _place_changed(self, row_of: Callable[[Session], ListedRow | None]) -> Iterator[None]:
        for name in list(self.changed):
            session = self._index.live_session(name)
            if session is None:
                self.forget(name)
                continue
            if not session.is_busy:
                self.changed.discard(name)
            listed = row_of(session)
            if listed is None:
                self._remove(name)
            else:
                self._place_row(session.state.owner, listed)
            if self._spend():
                yield

    def _place_row(self, owner: str, listed: ListedRow) -> None:
        own = listed.row.session
        known = self._places.get(own)
        group = "" if self._policy.sees_all else owner, listed.is_shown
        number = known[1][1] if known is not None else next(self._numbers)
        place = (-listed.row.updated_at, number, own)
        if known != (group, place):
            self._remove(own)
            self._places[own] = group, place
            insort(self._orders.setdefault(group, []), place)

    def _place_kept(self, kept: KeptRow) -> None:
        if kept.is_listed:
            self._place_row(kept.owner, kept.listed)

    def _remove(self, id: str) -> None:
        known = self._places.pop(id, None)
        if known is not None:
            group, place = known
            order = self._orders[group]
            del order[bisect_left(order, place)]
            if not order:
                del self._orders[group]

    # -- one page --------------------------------------------------------------------------------------

    def _start(self, wanted: WantedPage) -> tuple[RowPlace, list[ListedRow]] | None:
        """Return the position before the page, and the backend's rows from there; None for an unknown cursor."""
        described = sorted([*wanted.open_rows.values(), *wanted.other_rows], key=_age)
        cursor = wanted.command.cursor
        if not cursor:
            return FIRST, described
        placed = self._places.get(cursor) if cursor not in wanted.open_rows else None
        if placed is not None and placed[0][0] in self._owners(wanted):
            place = placed[1]
            return place, [listed for listed in described if _age(listed) >= place[0]]
        at = next((at for at, listed in enumerate(described) if listed.row.session == cursor), None)
        if at is None:
            return None
        return (_age(described[at]), next(self._numbers), ""), described[at + 1 :]

    def _owners(self, wanted: WantedPage) -> set[str]:
        return {""} if self._policy.sees_all else {"", wanted.principal}

    def _own_rows(self, wanted: WantedPage, after: RowPlace) -> Iterator[ListedRow]:
        """Yield the rows of the open sessions that the client may see, after the position `after`."""
        shown = (True, False) if wanted.silent else (True,)
        groups = [(owner, is_shown) for owner in self._owners(wanted) for is_shown in shown]
        walks = [self._walk(group, after) for group in groups]
        for _, _, own in merge(*walks) if len(walks) > 1 else walks[0]:
            session = self._index.live_session(own)
            if session is None and own in self._kept:
                yield self._kept[own].listed
            if session is None or own in wanted.open_rows or not self._policy.sees(wanted.principal, session.state):
                continue  # it is over, is among the rows of the backend, or has got another owner
            listed = wanted.row_of(session)
            if listed is not None:
                yield listed

    def _walk(self, group: RowGroup, after: RowPlace) -> Iterator[RowPlace]:
        """Yield the positions of a group after `after`."""
        while order := self._orders.get(group):
            at = bisect_right(order, after)
            chunk = order[at : at + CHUNK]
            if not chunk:
                return
            yield from chunk
            after = chunk[-1]


def _age(listed: ListedRow) -> int:
    """Return the key by which the newest row comes first."""
    return -listed.row.updated_at
