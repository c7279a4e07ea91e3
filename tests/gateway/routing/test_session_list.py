"""The order of open sessions, newest first, and the cost of a page."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import structs

from dragoman.gateway.overload.fair_queue import STEP
from dragoman.gateway.routing import session_list
from dragoman.gateway.routing.session_list import LIST_DEFAULT, LIST_MAX, PAGE, ROW, WantedPage
from dragoman.gateway.session.session import Session
from dragoman.gateway.session.titles import note_renamed
from dragoman.mappings.canonical.commands import ListSessions, RenameSession
from dragoman.mappings.canonical.events import SessionsListed, TextDelta
from dragoman.mappings.canonical.values import SessionSummary
from dragoman.mappings.dialect import Burst
from dragoman.mappings.rfc3339 import NS
from tests.gateway.listed import UnknownCursor, listed
from tests.gateway.routing.counted_route import CountedRoute, touched
from tests.idle import settle
from tests.step_counter import count_steps


def rename(session: Session, title: str) -> None:
    note_renamed(session.commands._context, RenameSession(title=title))


def crowd(count: int, *, titled: bool = True) -> CountedRoute:
    """Return a route with sessions without clients, the last one changed last; with a title each, or with none."""
    route = CountedRoute()
    route.open_and_leave(count)
    for number, session in enumerate(route.router.sessions if titled else ()):
        route.time.passes(1)
        rename(session, f"t{number}")
    return route


def titles(route: CountedRoute, **fields: Any) -> list[str]:
    """Return the titles of all pages of a list."""
    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = listed(route.router, ListSessions(cursor=cursor, **fields))
        found += [row.title for row in page.sessions]
        cursor = page.next_cursor
    return found


def test_the_pages_have_each_open_session_once_newest_first() -> None:
    assert titles(crowd(300), limit=7) == [f"t{number}" for number in reversed(range(300))]


def test_a_session_that_has_changed_is_the_first_of_the_next_list() -> None:
    route = crowd(10)
    titles(route)
    route.time.passes(1)
    rename(route.router.sessions[3], "news")
    assert titles(route)[:2] == ["news", "t9"]


def test_a_session_with_text_after_the_last_list_is_the_first_of_the_next() -> None:
    route = crowd(10)
    session = route.router.sessions[3]
    session.receive([Burst(items=[TextDelta(text="A")], at=route.time.clock() + 1)])
    titles(route)
    session.receive([Burst(items=[TextDelta(text="B")], at=route.time.clock() + NS)])
    route.time.passes(0.5)
    rename(route.router.sessions[5], "t5 again")
    assert titles(route)[:3] == ["t3", "t5 again", "t9"]


def test_a_session_that_was_dropped_is_not_listed() -> None:
    route = crowd(3)
    titles(route)
    route.sessions.drop(route.router.sessions[1])
    assert titles(route) == ["t2", "t0"]


def test_rows_of_the_backend_and_open_sessions_are_one_order_and_pages_go_on_behind_either() -> None:
    route = crowd(6)
    told = [
        SessionSummary(session=f"stored {second}", title=f"stored {second}", updated_at=second * NS)
        for second in (2, 4)
    ]
    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        one = listed(route.router, ListSessions(cursor=cursor, limit=1), told)
        found += [row.title for row in one.sessions]
        cursor = one.next_cursor
    assert found == ["t5", "t4", "t3", "stored 4", "t2", "t1", "stored 2", "t0"]


def test_an_open_session_that_the_backend_lists_too_is_listed_once_and_completed() -> None:
    route = crowd(3)
    state = route.router.sessions[0].state
    told = SessionSummary(session=state.id, title="other", updated_at=100 * NS, messages=7)
    first, *others = listed(route.router, ListSessions(), [told]).sessions
    assert (first.session, first.title, first.messages, first.updated_at) == (state.id, "t0", 7, 100 * NS)
    assert [row.title for row in others] == ["t2", "t1"]


def test_a_principal_with_own_sessions_is_shown_its_own_and_those_without_an_owner() -> None:
    route = CountedRoute(share="owner")
    route.open_and_leave(4)
    for session, owner in zip(route.router.sessions, ("ann", "bob", "", "ann"), strict=True):
        session.state.owner = owner
        route.time.passes(1)
        rename(session, f"of {owner or 'nobody'}")
    assert [row.title for row in listed(route.router, ListSessions(), principal="ann").sessions] == [
        "of ann",
        "of nobody",
        "of ann",
    ]


def test_a_reload_that_changes_who_sees_a_session_changes_the_lists() -> None:
    route = CountedRoute(share="owner")
    route.open_and_leave(2)
    for session, owner in zip(route.router.sessions, ("ann", "bob"), strict=True):
        session.state.owner = owner
        rename(session, f"of {owner}")
    route.sessions.list.keep_row("bob", SessionSummary(session="gone", title="forgotten"))
    route.sessions.list.forget("gone")

    def titles_of(principal: str) -> set[str]:
        return {row.title for row in listed(route.router, ListSessions(), principal=principal).sessions}

    found = [titles_of("ann")]
    for share in ("all", "owner"):
        route.router.change_route(structs.replace(route.router.route, share=share), route.services)
        found.append(titles_of("ann"))
    assert found == [{"of ann"}, {"of ann", "of bob", "forgotten"}, {"of ann"}]


@pytest.mark.parametrize("titled", [True, False], ids=["with titles", "without messages and titles"])
def test_a_page_examines_only_the_sessions_that_it_shows(titled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    route = crowd(1_000, titled=titled)
    listed(route.router, ListSessions())
    with touched(monkeypatch) as seen:
        listed(route.router, ListSessions(limit=10))
    assert len(seen) == (11 if titled else 0)


def test_a_page_costs_the_same_among_100_and_1000_sessions() -> None:
    def cost(count: int) -> int:
        router = crowd(count).router
        cursor = listed(router, ListSessions(limit=30)).next_cursor or ""
        return count_steps(lambda: listed(router, ListSessions(limit=10, cursor=cursor)))

    assert cost(1_000) < 1.2 * cost(100)


def test_a_page_examines_only_the_forgotten_sessions_that_it_shows() -> None:
    def cost(count: int) -> int:
        route = crowd(10)
        for number in range(count):
            row = SessionSummary(session=f"{number}", title=f"forgotten {number}", updated_at=(100 + number) * NS)
            route.sessions.list.keep_row("", row)
            route.sessions.list.forget(row.session)
        found = listed(route.router, ListSessions(limit=5))
        assert [row.title for row in found.sessions] == [f"forgotten {count - 1 - n}" for n in range(5)]
        return count_steps(lambda: listed(route.router, ListSessions(limit=5, cursor=found.next_cursor or "")))

    assert cost(1_000) < 1.2 * cost(100)


def test_a_forgotten_row_that_was_dropped_is_not_listed() -> None:
    route = crowd(1)
    route.sessions.list.keep_row("", SessionSummary(session="f", title="forgotten", updated_at=100 * NS))
    route.sessions.list.forget("f")
    assert titles(route) == ["forgotten", "t0"]
    route.sessions.list.take_row("f")
    assert titles(route) == ["t0"]


def test_the_kept_rows_are_bounded_and_the_oldest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_list, "ROWS_MAX", 2)
    rows = CountedRoute().sessions.list
    dropped = [rows.keep_row("", SessionSummary(session=name)) for name in ("a", "b", "c")]
    assert [row.session if row is not None else "" for row in dropped] == ["", "", "a"]
    assert [row.session for row in rows.kept_rows()] == ["b", "c"]


def test_a_kept_row_that_was_removed_leaves_no_name_behind() -> None:
    rows = CountedRoute().sessions.list
    rows.keep_row("", SessionSummary(session="a"))
    rows.take_row("a")
    assert rows.take_row("a") is None
    assert not rows._kept_ids


def test_a_principal_is_not_shown_the_forgotten_session_of_another() -> None:
    route = CountedRoute(share="owner")
    for owner in ("ann", "bob"):
        route.sessions.list.keep_row(owner, SessionSummary(session=owner, title=f"of {owner}", updated_at=NS))
        route.sessions.list.forget(owner)
    assert [row.title for row in listed(route.router, ListSessions(), principal="ann").sessions] == ["of ann"]


def test_the_lists_of_one_client_wait_for_turns_when_the_step_is_used_up() -> None:
    async def lists() -> tuple[int, int]:
        route = crowd(LIST_MAX + 1)
        link = route.connect("floods")
        got = link.outbox._frames
        route.services.queue.budget.left = STEP
        for number in range(100):
            route.router.receive(link, [Burst(items=[ListSessions(request=f"{number}", limit=LIST_MAX)])])
        at_once = len(got)
        await settle()
        return at_once, len(got)

    at_once, in_the_end = asyncio.run(lists())
    assert at_once <= STEP // (PAGE + LIST_MAX * ROW)
    assert in_the_end == 100


def test_a_page_with_few_rows_counts_as_more_work_than_a_small_command() -> None:
    route = crowd(1)
    budget = route.services.queue.budget
    budget.left = 0
    for _ in route.sessions.list.take_page(wanted_page(route), lambda _page: None):
        pass
    assert budget.left <= -PAGE


def wanted_page(route: CountedRoute, query: str = "") -> WantedPage:
    return WantedPage(
        principal="local",
        silent=False,
        command=ListSessions(query=query),
        row_of=route.router._commands._row_of,
        open_rows={},
        other_rows=[],
    )


def test_a_list_without_matches_is_read_in_slices() -> None:
    """A query may match no session: then all are searched, and other links are served between the slices."""
    route = crowd(1_000)
    queue = route.services.queue
    told: list[SessionsListed | None] = []
    wanted = wanted_page(route, "nowhere")
    slices = 0
    queue.budget.left = STEP
    for _ in route.sessions.list.take_page(wanted, told.append):
        queue.budget.left = STEP
        slices += 1
    assert slices >= 2 * 1_000 * ROW // STEP
    assert told == [SessionsListed(request="", sessions=())]


def page(rows: list[SessionSummary], command: ListSessions, *, silent: bool = False) -> SessionsListed:
    """Return a page of the rows of a backend, without open sessions."""
    return listed(CountedRoute().router, command, rows, silent=silent)


def made_rows(count: int) -> list[SessionSummary]:
    return [SessionSummary(session=f"{n}", title=f"t{n}", updated_at=n, messages=1) for n in range(count)]


def test_a_list_is_paged_newest_first() -> None:
    first = page(made_rows(5), ListSessions(limit=2))
    second = page(made_rows(5), ListSessions(limit=2, cursor=first.next_cursor or ""))
    third = page(made_rows(5), ListSessions(limit=2, cursor=second.next_cursor or ""))
    assert [[row.session for row in page.sessions] for page in (first, second, third)] == [
        ["4", "3"],
        ["2", "1"],
        ["0"],
    ]
    assert third.next_cursor is None


def test_an_unknown_cursor_is_refused() -> None:
    with pytest.raises(UnknownCursor):
        page(made_rows(5), ListSessions(cursor="gone"))


@pytest.mark.parametrize(("asked", "shown"), [(0, LIST_DEFAULT), (1000, LIST_MAX), (3, 3)])
def test_the_requested_limit_bounds_the_rows_of_a_page(asked: int, shown: int) -> None:
    assert len(page(made_rows(LIST_MAX + 1), ListSessions(limit=asked)).sessions) == shown


def test_a_session_without_messages_and_title_is_left_out_of_lists() -> None:
    told = [
        SessionSummary(session="a"),
        SessionSummary(session="b", title="atlas"),
        SessionSummary(session="c", messages=1),
    ]
    assert {row.session for row in page(told, ListSessions()).sessions} == {"b", "c"}
    assert len(page(told, ListSessions(), silent=True).sessions) == 3, "to a dialect that lists them from the start"
