"""The sessions of a route: which are made, and who learns of them."""

from __future__ import annotations

import asyncio

from dragoman.gateway.routing.sessions import STOPPED_AT_ONCE
from dragoman.gateway.session.session import NO_BACKEND
from dragoman.mappings.dialect import Loss
from tests.gateway.backends.in_memory_pando import InMemoryPandoGateway, frames, in_memory_pando_gateway, row, send
from tests.gateway.routing.counted_route import CountedRoute
from tests.gateway.smooth_client_messages import ask
from tests.idle import settle
from tests.memory_transport import MemoryTransport

ONE, OTHER = "0b0e9b0e-0000-4000-8000-000000000001", "0b0e9b0e-0000-4000-8000-000000000002"


async def listening(made: InMemoryPandoGateway) -> MemoryTransport:
    """Return a publication, and a client for which the primary is connected."""
    told = made.join("pando", publishes=True)
    await send(made.join("smooth"), ask("list_conversations", "r1"))
    return told


def announced(told: MemoryTransport) -> list[str]:
    return [f["payload"]["id"] for f in frames(told) if f["topic"] == "session.update"]


async def test_a_publication_learns_of_every_open_and_new_session() -> None:
    async with in_memory_pando_gateway() as made:
        told = await listening(made)
        await made.begins()
        await made.publishes("session.update", **row(ONE))
        assert set(announced(told)) == {ONE}
        late = made.join("pando", publishes=True)
        await settle()
        assert announced(late) == [ONE]
        await made.publishes("session.update", **row(OTHER))
        assert OTHER in announced(told)
        assert OTHER in announced(late)


async def test_a_listed_session_is_announced_once_it_is_used() -> None:
    """A primary announces sessions that are created, saved or ended (docs/dialects/pando.md, section 4)."""
    async with in_memory_pando_gateway() as made:
        told = await listening(made)
        await made.begins(row(ONE), row(OTHER))
        assert announced(told) == []
        await send(made.join("smooth"), ask("get_session", "r1", sessionId=ONE))
        assert announced(told) == [ONE]


async def test_a_publication_learns_no_more_of_a_session_once_it_has_an_owner() -> None:
    """Sessions with an owner are not published unless the route allows it (docs/design.md, section 5)."""
    async with in_memory_pando_gateway(share="owner") as made:
        told = await listening(made)
        await made.begins(row(ONE), row(OTHER))
        await send(made.join("smooth"), ask("get_session", "r1", sessionId=ONE))
        for session in (ONE, OTHER):
            await made.publishes("llm.token", session_id=session, token="Hi")
        await made.answers_each("message.list", [])
        assert [f["payload"]["session_id"] for f in frames(told) if f["topic"] == "llm.token"] == [OTHER]


async def test_an_ended_or_owned_session_is_no_longer_counted() -> None:
    async with in_memory_pando_gateway(share="owner") as made:
        client = await made.lists(row(ONE), row(OTHER))
        for session in (ONE, OTHER):
            await made.publishes("session.update", **row(session))
        assert made.router.published == 2
        await made.publishes("session.deleted", **row(ONE))
        assert made.router.published == 1
        await send(client, ask("get_session", "r2", sessionId=OTHER))
        assert made.router.published == 0


async def test_an_ended_publication_learns_of_no_session() -> None:
    async with in_memory_pando_gateway() as made:
        told = await listening(made)
        told.hang_up()
        await made.begins(row(ONE))
        assert announced(told) == []


async def test_no_session_is_created_for_a_client_that_only_connects() -> None:
    async with in_memory_pando_gateway() as made:
        made.join("smooth")
        await settle()
        assert (made.router.sessions, made.primaries) == ([], [])


async def test_sessions_stop_in_slices_and_those_that_are_opened_meanwhile_stop_too() -> None:
    route = CountedRoute()
    link = route.connect("c")
    for _ in range(2 * STOPPED_AT_ONCE):
        route.send_open(link)
    async with asyncio.TaskGroup() as group:
        ending = group.create_task(route.router.stop(), name="stop")
        await asyncio.sleep(0)
        route.send_open(link)
        slices = [stopped(route)]
        while not ending.done():
            await asyncio.sleep(0)
            slices.append(stopped(route))
    assert slices[:2] == [STOPPED_AT_ONCE, 2 * STOPPED_AT_ONCE]
    assert slices[-1] == len(route.router.sessions) == 2 * STOPPED_AT_ONCE + 1


async def test_a_backend_makes_no_session_while_the_sessions_stop() -> None:
    async with in_memory_pando_gateway() as made:
        await made.lists()
        await made.publishes("session.update", **row(ONE))
        async with asyncio.TaskGroup() as group:
            group.create_task(made.router.stop(), name="stop")
            await made.publishes("session.update", **row(OTHER))
        assert [session.state.id for session in made.router.sessions] == [ONE]


def stopped(route: CountedRoute) -> int:
    return sum(session.backend is NO_BACKEND for session in route.router.sessions)


def test_the_losses_of_a_provisional_id_count_for_the_session_that_was_opened() -> None:
    route = CountedRoute()
    link = route.connect("a")
    session = route.open_session(link)
    route.ledger.record([Loss(kind="Gap", why="a test")], session=session.state.id)
    route.router._all.rename_session(session, "own")
    assert [entry.session for entry in route.ledger.entries()] == ["own"]
    assert (session.state.id, list(link.sessions)) == ("own", ["own"])
