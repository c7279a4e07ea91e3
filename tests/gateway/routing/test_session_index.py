"""The sessions of a route by their names, and pages of their list."""

from __future__ import annotations

import pytest

from dragoman.gateway.routing.session_index import LIST_DEFAULT, LIST_MAX, NAMES_MAX, listing
from dragoman.mappings.canonical.commands import ListSessions
from dragoman.mappings.canonical.values import SessionSummary
from dragoman.mappings.errors import PeerError
from dragoman.mappings.pando.vocabulary import keep
from tests.gateway.in_memory import SESSION, in_memory_gateway
from tests.gateway.smooth_client_messages import CONVERSATION, SHOWN


@pytest.mark.parametrize("name", [SESSION, SHOWN, CONVERSATION])
async def test_a_session_is_found_by_its_id_and_its_public_ids_until_it_is_dropped(name: str) -> None:
    async with in_memory_gateway() as made:
        index = made.router._all.index
        assert index.find_session(name) is made.session
        assert made.session in index
        index.drop(made.session)
        assert index.find_session(name) is None
        assert made.session not in index
        assert list(index) == []


async def test_the_names_that_clients_choose_for_one_session_are_bounded() -> None:
    """A client that opens the one session of a backend may choose another name each time."""
    async with in_memory_gateway() as made:
        index = made.router._all.index
        for number in range(NAMES_MAX):
            index.add_name(made.session, f"n-{number}")
        assert index.find_session("n-0") is None
        assert index.find_session(f"n-{NAMES_MAX - 1}") is index.find_session(SESSION) is made.session
        assert len(index.names(made.session)) == NAMES_MAX


async def test_a_session_named_by_a_client_is_kept_before_anybody_used_it() -> None:
    async with in_memory_gateway() as made:
        assert made.session.presence.vacant
        made.session.state.chosen_ids = keep(id="ours")
        assert not made.session.presence.vacant


def rows(count: int) -> list[SessionSummary]:
    return [SessionSummary(session=f"{n}", title=f"t{n}", updated_at=n, messages=1) for n in range(count)]


def test_a_list_is_paged_newest_first() -> None:
    first = listing(rows(5), ListSessions(limit=2))
    second = listing(rows(5), ListSessions(limit=2, cursor=first.next_cursor or ""))
    third = listing(rows(5), ListSessions(limit=2, cursor=second.next_cursor or ""))
    assert [[row.session for row in page.sessions] for page in (first, second, third)] == [
        ["4", "3"],
        ["2", "1"],
        ["0"],
    ]
    assert third.next_cursor is None


def test_an_unknown_cursor_is_refused() -> None:
    with pytest.raises(PeerError, match="unknown cursor"):
        listing(rows(5), ListSessions(cursor="gone"))


@pytest.mark.parametrize(("asked", "shown"), [(0, LIST_DEFAULT), (1000, LIST_MAX), (3, 3)])
def test_a_page_has_a_size(asked: int, shown: int) -> None:
    assert len(listing(rows(LIST_MAX + 1), ListSessions(limit=asked)).sessions) == shown


def test_a_session_without_messages_and_title_is_left_out_of_lists() -> None:
    told = [
        SessionSummary(session="a"),
        SessionSummary(session="b", title="atlas"),
        SessionSummary(session="c", messages=1),
    ]
    assert {row.session for row in listing(told, ListSessions()).sessions} == {"b", "c"}
    assert len(listing(told, ListSessions(), silent=True).sessions) == 3, "to a dialect that lists them from the start"
