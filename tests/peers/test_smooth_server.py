"""The real smooth server behind the gateway, the real smooth client before it: as without the gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from smooth_operator.client import ProtocolError

from tests.pairs.gateway import bridged
from tests.peers.client import Client, connected
from tests.peers.smooth_server import RealServer, serving

TERMINALS = {"eventual_response", "error", "cancelled"}


@pytest.fixture
async def server() -> AsyncIterator[RealServer]:
    async with serving() as real:
        yield real


@pytest.fixture
async def client(server: RealServer) -> AsyncIterator[Client]:
    async with bridged(server.endpoint) as (_, url), connected(url) as smooth:
        yield smooth


def parts(final: Any) -> str:
    return "".join(final.data.data.response["responseParts"])


async def test_a_turn_streams_through_with_the_servers_own_ids(server: RealServer, client: Client) -> None:
    server.model.push_text("Hello from the engine!")
    turn = client.say("hello there")
    final = await turn
    assert parts(final) == client.tokens(turn.request_id) == "Hello from the engine!"
    kinds = client.kinds(turn.request_id)
    assert (kinds[0], kinds[-1]) == ("immediate_response", "eventual_response")
    page = await client.smooth.get_messages(session_id=client.session)
    assert [m.content.text for m in page.messages] == ["Hello from the engine!", "hello there"]
    assert str(page.messages[0].id) == final.data.data.message_id


async def test_a_tool_call_and_its_result_go_through(server: RealServer, client: Client) -> None:
    server.model.push_tool_call("c1", "lookup_order", '{"id": "123"}')
    server.model.push_text("It has shipped.")
    final = await client.say("where is order 123?")
    chunks = [f["data"]["state"]["rawResponse"] for f in client.frames if f["type"] == "stream_chunk"]
    assert chunks[0]["toolCall"] == {"name": "lookup_order", "arguments": {"id": "123"}}
    assert chunks[1]["toolResult"]["result"] == "Order 123 shipped."
    assert parts(final) == "It has shipped."


@pytest.mark.parametrize("approved", [True, False])
async def test_a_write_waits_for_its_confirmation(server: RealServer, client: Client, approved: bool) -> None:
    server.model.push_tool_call("c1", "delete_record", '{"id": "42"}')
    server.model.push_text("As you said.")
    turn = client.say("delete record 42")
    async for event in turn:
        if event.type == "write_confirmation_required":
            assert server.deleted == []
            client.smooth.confirm_tool_action(session_id=client.session, request_id=turn.request_id, approved=approved)
    assert parts(await turn) == "As you said."
    assert server.deleted == (["42"] if approved else [])


async def test_cancel_while_parked_then_the_next_turn(server: RealServer, client: Client) -> None:
    server.model.push_tool_call("c1", "delete_record", '{"id": "42"}')
    turn = client.say("delete record 42")
    async for event in turn:
        if event.type == "write_confirmation_required":
            turn.cancel()
    assert (await turn).type == "cancelled"
    assert [kind for kind in client.kinds(turn.request_id) if kind in TERMINALS] == ["cancelled"]
    server.model.push_text("Fine.")
    assert parts(await client.say("never mind")) == "Fine."
    assert server.deleted == []


async def test_a_confirmation_that_nobody_asked_for_is_refused_by_the_server(client: Client) -> None:
    client.smooth.confirm_tool_action(session_id=client.session, request_id="stray", approved=True)
    while not any(f.get("requestId") == "stray" for f in client.frames):
        await client.news()
    (refusal,) = [f for f in client.frames if f.get("requestId") == "stray"]
    assert refusal["error"]["code"] == "NO_PENDING_CONFIRMATION"


async def test_a_failing_model_ends_the_turn_with_the_servers_error(server: RealServer, client: Client) -> None:
    server.model.push_error("boom")
    turn = client.say("boom")
    with pytest.raises(ProtocolError) as failed:
        await turn
    assert failed.value.code == "INTERNAL_ERROR"
    assert [kind for kind in client.kinds(turn.request_id) if kind in TERMINALS] == ["error"]


async def test_each_client_has_a_conversation_of_its_own(server: RealServer) -> None:
    async with bridged(server.endpoint) as (_, url), connected(url) as one, connected(url) as two:
        assert one.session != two.session
        server.model.push_text("for one")
        assert parts(await one.say("hi")) == "for one"
        assert two.kinds() == ["immediate_response"]
        found = await two.smooth.get_session(session_id=one.session)
        assert str(found.session_id) == one.session


async def test_a_server_that_goes_away_ends_the_turn_with_an_error(server: RealServer, client: Client) -> None:
    server.model.push_tool_call("c1", "delete_record", '{"id": "42"}')
    turn = client.say("delete record 42")
    await client.until("write_confirmation_required")
    await server.stop()
    with pytest.raises(ProtocolError) as lost:
        await turn
    assert "lost" in str(lost.value)


async def test_a_server_that_is_not_there_is_said_at_create() -> None:
    async with bridged("smooth+ws://127.0.0.1:9/ws") as (_, url):
        client = Client(url)
        await client.smooth.connect()
        with pytest.raises(ProtocolError) as refused:
            await client.open()
        await client.smooth.disconnect()
    assert "cannot be reached" in str(refused.value)
