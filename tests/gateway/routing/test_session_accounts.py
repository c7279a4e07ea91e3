"""The accounts of a session move and end with it; a gateway that stops waits for the busy sessions."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.gateway.routing.session_accounts import BusySessions
from dragoman.mappings.dialect import Loss
from tests.gateway.in_memory import in_memory_gateway
from tests.gateway.routing.counted_route import CountedRoute
from tests.idle import settle


def test_the_losses_of_a_provisional_id_count_for_the_session_that_was_opened() -> None:
    route = CountedRoute()
    session = route.open_session(route.connect("a"))
    route.ledger.record([Loss(kind="Gap", why="a test")], session="provisional")
    route.router._all._accounts.rename("provisional", session.state)
    assert [entry.session for entry in route.ledger.entries()] == [session.state.id]


def test_a_closed_memory_account_counts_for_no_owner_and_no_session() -> None:
    route = CountedRoute()
    session = route.open_session(route.connect("a"))
    route.ledger.record([Loss(kind="Gap", why="a test")], session=session.state.id)
    sessions = route.router._all
    before = sessions.quota.has_owners
    sessions._accounts.close(session)
    assert (before, sessions.quota.has_owners) == (True, False)
    assert [entry.session for entry in route.ledger.entries()] == [""]


async def test_shutdown_waits_for_no_session_if_none_is_busy() -> None:
    await BusySessions().finish()


@pytest.mark.parametrize("busy_again", [False, True])
async def test_shutdown_waits_until_each_busy_session_was_idle_once(busy_again: bool) -> None:
    async with in_memory_gateway() as made, asyncio.TaskGroup() as group:
        busy = BusySessions()
        busy.note(made.session, True)
        waiting = group.create_task(busy.finish(), name="finish")
        await settle()
        assert not waiting.done()
        busy.note(made.session, False)
        if busy_again:
            busy.note(made.session, True)
        await settle()
        assert waiting.done()
