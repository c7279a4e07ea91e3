"""Pages of the list of sessions: newest first, at a cost that does not grow with the number of sessions."""

from __future__ import annotations

import pytest

from dragoman.gateway.routing.session_list import LIST_DEFAULT, LIST_MAX
from dragoman.mappings.canonical.commands import ListSessions
from dragoman.mappings.canonical.events import SessionsListed
from dragoman.mappings.canonical.values import SessionSummary
from tests.gateway.listed import UnknownCursor, listed
from tests.gateway.routing.counted_route import CountedRoute


def page(rows: list[SessionSummary], command: ListSessions, *, silent: bool = False) -> SessionsListed:
    """Return a page of the rows of a backend, without open sessions."""
    return listed(CountedRoute().router, command, rows, silent=silent)


def rows(count: int) -> list[SessionSummary]:
    return [SessionSummary(session=f"{n}", title=f"t{n}", updated_at=n, messages=1) for n in range(count)]


def test_a_list_is_paged_newest_first() -> None:
    first = page(rows(5), ListSessions(limit=2))
    second = page(rows(5), ListSessions(limit=2, cursor=first.next_cursor or ""))
    third = page(rows(5), ListSessions(limit=2, cursor=second.next_cursor or ""))
    assert [[row.session for row in page.sessions] for page in (first, second, third)] == [
        ["4", "3"],
        ["2", "1"],
        ["0"],
    ]
    assert third.next_cursor is None


def test_an_unknown_cursor_is_refused() -> None:
    with pytest.raises(UnknownCursor):
        page(rows(5), ListSessions(cursor="gone"))


@pytest.mark.parametrize(("asked", "shown"), [(0, LIST_DEFAULT), (1000, LIST_MAX), (3, 3)])
def test_the_requested_limit_bounds_the_rows_of_a_page(asked: int, shown: int) -> None:
    assert len(page(rows(LIST_MAX + 1), ListSessions(limit=asked)).sessions) == shown


def test_a_session_without_messages_and_title_is_left_out_of_lists() -> None:
    told = [
        SessionSummary(session="a"),
        SessionSummary(session="b", title="atlas"),
        SessionSummary(session="c", messages=1),
    ]
    assert {row.session for row in page(told, ListSessions()).sessions} == {"b", "c"}
    assert len(page(told, ListSessions(), silent=True).sessions) == 3, "to a dialect that lists them from the start"
