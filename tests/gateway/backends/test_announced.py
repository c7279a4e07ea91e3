"""A backend tells of ever more sessions: the gateway holds a bounded number of those that nobody uses."""

from __future__ import annotations

import pytest

from dragoman.gateway.backends import announced
from dragoman.gateway.backends.announced import TOO_MANY
from tests.gateway.backends.in_memory_pando import InMemoryPandoGateway, frames, in_memory_pando_gateway, row, send
from tests.gateway.smooth_client_messages import ask

ONE, TWO, THREE = (f"0b0e9b0e-0000-4000-8000-00000000000{number}" for number in (1, 2, 3))


@pytest.fixture(autouse=True)
def at_most_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announced, "ANNOUNCED_MAX", 2)


async def tells_of_three(made: InMemoryPandoGateway) -> None:
    await made.begins()
    for name in (ONE, TWO, THREE):
        await made.publishes("session.update", **row(name))


def lives(made: InMemoryPandoGateway) -> list[str]:
    return [session.state.id for session in made.router.sessions]


async def test_the_first_session_is_forgotten_if_there_are_too_many() -> None:
    async with in_memory_pando_gateway() as made:
        client = made.join("smooth")
        await send(client, ask("list_conversations", "r0"))
        await tells_of_three(made)
        assert lives(made) == [TWO, THREE]
        client.got.clear()
        await send(client, ask("list_conversations", "r1"))
        (reply,) = frames(client)
        assert {one["conversationId"] for one in reply["data"]["conversations"]} == {ONE, TWO, THREE}


async def test_a_session_with_a_client_is_not_forgotten() -> None:
    async with in_memory_pando_gateway() as made:
        client = made.join("smooth")
        await send(client, ask("list_conversations", "r0"))
        await made.begins()
        await made.publishes("session.update", **row(ONE))
        await send(client, ask("get_session", "r1", sessionId=ONE))
        for name in (TWO, THREE):
            await made.publishes("session.update", **row(name))
        assert lives(made) == [ONE, TWO, THREE]


async def test_subscribers_are_told_that_the_open_turn_of_a_forgotten_session_failed() -> None:
    async with in_memory_pando_gateway() as made:
        told = made.join("pando", publishes=True)
        await send(made.join("smooth"), ask("list_conversations", "r0"))
        await made.begins()
        await made.publishes("session.update", **row(ONE))
        await made.publishes("llm.start", session_id=ONE)
        await made.answers_each("message.list", [])
        for name in (TWO, THREE):
            await made.publishes("session.update", **row(name))
        of_one = [frame for frame in frames(told) if frame["payload"].get("session_id") == ONE]
        assert [frame["topic"] for frame in of_one] == ["llm.start", "message.append", "llm.end"]
        assert of_one[1]["payload"]["content"] == TOO_MANY.text


async def test_a_session_that_is_over_is_no_longer_counted() -> None:
    async with in_memory_pando_gateway() as made:
        await send(made.join("smooth"), ask("list_conversations", "r0"))
        await made.begins()
        for name in (ONE, TWO):
            await made.publishes("session.update", **row(name))
        await made.publishes("session.deleted", **row(TWO))
        await made.publishes("session.update", **row(THREE))
        assert lives(made) == [ONE, THREE]


async def test_events_that_the_end_releases_make_no_session() -> None:
    async with in_memory_pando_gateway() as made:
        await send(made.join("smooth"), ask("list_conversations", "r0"))
        await made.begins()
        await made.publishes("session.update", **row(ONE))
        await made.publishes("llm.token", session_id=ONE, token="Hi")
        for name in (TWO, THREE):
            await made.publishes("session.update", **row(name))
        assert (lives(made), made.asked()) == ([TWO, THREE], ["message.list"]), "who began the run of the first one"
        await made.router.stop()
        assert lives(made) == [TWO, THREE]
