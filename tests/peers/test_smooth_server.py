"""The real smooth server behind the gateway and the real smooth client before it behave as without the gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest
from msgspec import structs
from smooth_operator.client import ProtocolError
from smooth_operator_server.session_store import MessageDirection

from dragoman.gateway.config.model import Limits
from tests.pairs.gateway import LIMITS, SmoothClient, bridged
from tests.pairs.pando_client import PandoClient
from tests.peers.real_smooth_client import RealSmoothClient, connected
from tests.peers.smooth_server import RealServer, serving, verified_only

TERMINALS = {"eventual_response", "error", "cancelled"}


@pytest.fixture
async def client(server: RealServer) -> AsyncIterator[RealSmoothClient]:
    async with bridged(server.endpoint) as (_, url), connected(url) as smooth:
        yield smooth


def parts(final: Any) -> str:
    return "".join(final.data.data.response["responseParts"])


async def test_a_turn_streams_through_with_the_servers_own_ids(server: RealServer, client: RealSmoothClient) -> None:
    server.model.push_text("Hello from the engine!")
    turn = client.say("hello there")
    final = await turn
    assert parts(final) == client.tokens(turn.request_id) == "Hello from the engine!"
    kinds = client.kinds(turn.request_id)
    assert (kinds[0], kinds[-1]) == ("immediate_response", "eventual_response")
    page = await client.smooth.get_messages(session_id=client.session)
    assert [m.content.text for m in page.messages] == ["Hello from the engine!", "hello there"]
    assert str(page.messages[0].id) == final.data.data.message_id


async def test_a_tool_call_and_its_result_go_through(server: RealServer, client: RealSmoothClient) -> None:
    server.model.push_tool_call("c1", "lookup_order", '{"id": "123"}')
    server.model.push_text("It has shipped.")
    final = await client.say("where is order 123?")
    chunks = [f["data"]["state"]["rawResponse"] for f in client.frames if f["type"] == "stream_chunk"]
    assert chunks[0]["toolCall"] == {"name": "lookup_order", "arguments": {"id": "123"}}
    assert chunks[1]["toolResult"]["result"] == "Order 123 shipped."
    assert parts(final) == "It has shipped."


@pytest.mark.parametrize("approved", [True, False])
async def test_a_write_waits_for_its_confirmation(server: RealServer, client: RealSmoothClient, approved: bool) -> None:
    server.model.push_tool_call("c1", "delete_record", '{"id": "42"}')
    server.model.push_text("As you said.")
    turn = client.say("delete record 42")
    async for event in turn:
        if event.type == "write_confirmation_required":
            assert server.deleted == []
            client.smooth.confirm_tool_action(session_id=client.session, request_id=turn.request_id, approved=approved)
    assert parts(await turn) == "As you said."
    assert server.deleted == (["42"] if approved else [])


async def test_cancel_while_parked_then_the_next_turn(server: RealServer, client: RealSmoothClient) -> None:
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


async def test_an_unrequested_confirmation_is_refused_by_the_server(client: RealSmoothClient) -> None:
    client.smooth.confirm_tool_action(session_id=client.session, request_id="stray", approved=True)
    while not any(f.get("requestId") == "stray" for f in client.frames):
        await client.news()
    (refusal,) = [f for f in client.frames if f.get("requestId") == "stray"]
    assert refusal["error"]["code"] == "NO_PENDING_CONFIRMATION"


async def test_a_failing_model_ends_the_turn_with_the_servers_error(
    server: RealServer, client: RealSmoothClient
) -> None:
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


async def test_a_server_that_goes_away_ends_the_turn_with_an_error(
    server: RealServer, client: RealSmoothClient
) -> None:
    server.model.push_tool_call("c1", "delete_record", '{"id": "42"}')
    turn = client.say("delete record 42")
    await client.until("write_confirmation_required")
    await server.stop()
    with pytest.raises(ProtocolError) as lost:
        await turn
    assert "lost" in str(lost.value)


async def test_a_missing_server_is_reported_when_a_session_is_created() -> None:
    async with bridged("smooth+ws://127.0.0.1:9/ws") as (_, url):
        client = RealSmoothClient(url)
        await client.smooth.connect()
        with pytest.raises(ProtocolError) as refused:
            await client.open()
        await client.smooth.disconnect()
    assert "cannot be reached" in str(refused.value)


# -- answers that are events ------------------------------------------------------------------------

IDENTITY = '{"fields": [{"key": "email", "required": true}], "reason": "to send you the quote"}'
AT_ONCE = 20.0  # seconds for an answer that a scripted server has ready: well below each deadline here
PATIENT = structs.replace(LIMITS, cancel_deadline=60.0, accept_deadline=60.0)

with_and_without = pytest.mark.parametrize("way", ["server", "gateway"])


ANN = {"userEmail": "ann@example.com", "supports": ["identity_form"]}


@asynccontextmanager
async def plain(
    way: str, agent: str, user: dict[str, Any] = ANN, **parts: Any
) -> AsyncIterator[tuple[RealServer, SmoothClient]]:
    """Connect a bare client of this user, in a session of this agent."""
    async with (
        asyncio.timeout(AT_ONCE),
        serving(**parts) as server,
        bridged(server.endpoint, limits=PATIENT) as (_, url),
        SmoothClient.connected(url if way == "gateway" else server.url) as client,
    ):
        await create(client, agentId=agent, **user)
        yield server, client


async def create(client: SmoothClient, **details: Any) -> str:
    """Have the client open a session, or another one of a conversation; return the conversation."""
    opened = await client.ask({"action": "create_conversation_session", **details})
    client.session = opened["data"]["sessionId"]
    return str(opened["data"]["conversationId"])


async def turn(client: SmoothClient, text: str) -> list[str]:
    """Run a turn; return the types of its frames."""
    request = await client.turn(text)
    return [frame["type"] for frame in client.of(request)]


@with_and_without
async def test_verdicts_on_codes_go_to_the_sender_and_a_right_code_opens_the_tool(way: str) -> None:
    agent = str(uuid4())
    async with plain(way, agent, **verified_only(agent)) as (server, client):
        server.model.push_tool_call("c1", "lookup_order", '{"id": "123"}').push_text("Please verify.")
        kinds = await turn(client, "where is order 123?")
        assert kinds[-3:] == ["otp_verification_required", "otp_sent", "eventual_response"]
        verify = {"action": "verify_otp", "sessionId": client.session}
        wrong = await client.ask({**verify, "code": "000000"})
        assert (wrong["type"], wrong["data"]["data"]["attemptsRemaining"]) == ("otp_invalid", 2)
        right = await client.ask({**verify, "code": "123456"})
        assert right["type"] == "otp_verified"
        server.model.push_tool_call("c2", "lookup_order", '{"id": "123"}').push_text("It has shipped.")
        assert "otp_verification_required" not in await turn(client, "where is order 123?")


@with_and_without
async def test_a_refused_form_is_answered_to_the_sender_and_stays_open(way: str) -> None:
    async with plain(way, str(uuid4())) as (server, client):
        server.model.push_tool_call("c1", "request_identity_intake", IDENTITY).push_text("Thank you.")
        request = await client.say("a quote, please")
        await client.until(lambda: any(frame["type"] == "interaction_required" for frame in client.frames))
        (form,) = [f["data"]["data"] for f in client.frames if f["type"] == "interaction_required"]
        submit = {"action": "submit_interaction", "sessionId": client.session, "interactionId": form["interactionId"]}
        refused = await client.ask({**submit, "values": {"email": "nowhere"}})
        assert refused["type"] == "interaction_invalid"
        assert refused["data"]["data"]["errors"][0]["field"] == "email"
        taken = await client.ask({**submit, "values": {"email": "ann@example.com"}})
        assert (taken["type"], taken["status"]) == ("immediate_response", 200)
        await client.until(lambda: any(frame["type"] in TERMINALS for frame in client.of(request)))
        assert client.of(request)[-1]["type"] == "eventual_response"


@with_and_without
async def test_a_client_that_resumes_an_open_conversation_brings_its_contact_and_forms(way: str) -> None:
    agent = str(uuid4())
    async with plain(way, agent, {}, **verified_only(agent)) as (server, client):
        conversation = await create(client, agentId=agent)
        server.model.push_tool_call("c1", "lookup_order", '{"id": "123"}').push_text("I may not.")
        assert "otp_sent" not in await turn(client, "where is order 123?")
        assert await create(client, agentId=agent, conversationId=conversation, **ANN) == conversation
        server.model.push_tool_call("c2", "lookup_order", '{"id": "123"}').push_text("Please verify.")
        assert "otp_sent" in await turn(client, "where is order 123?")
        server.model.push_tool_call("c3", "request_identity_intake", IDENTITY)
        await client.say("a quote, please")
        await client.until(lambda: any(frame["type"] == "interaction_required" for frame in client.frames))


async def test_a_client_that_resumes_while_a_write_waits_can_confirm_it() -> None:
    agent = str(uuid4())
    async with plain("gateway", agent, {}) as (server, client):
        conversation = await create(client, agentId=agent)
        server.model.push_tool_call("c1", "delete_record", '{"id": "42"}').push_text("Deleted.")
        await client.say("delete record 42")
        await client.until(lambda: any(frame["type"] == "write_confirmation_required" for frame in client.frames))
        await create(client, agentId=agent, conversationId=conversation, **ANN)
        confirm = {"action": "confirm_tool_action", "sessionId": client.session, "approved": True}
        assert (await client.ask(confirm))["type"] == "immediate_response"
        await client.until(lambda: bool(client.terminals()))
        assert server.deleted == ["42"]


async def test_a_client_that_claims_no_forms_is_asked_by_the_server_itself(
    server: RealServer, client: RealSmoothClient
) -> None:
    """The real client cannot send `supports`, so nothing is claimed for it (docs/translation.md, rule 3.3)."""
    server.model.push_tool_call("c1", "request_identity_intake", IDENTITY).push_text("What is your email?")
    asked = client.say("a quote, please")
    assert parts(await asked) == client.tokens(asked.request_id) == "What is your email?"
    told = [message["content"] for message in server.model.calls[-1].messages if message["role"] == "tool"]
    assert json.loads(told[-1])["mode"] == "conversational"
    assert "interaction_required" not in client.kinds()


# -- a long history, as clients of other dialects read it ------------------------------------------


pytestmark = pytest.mark.peers

STORED = 250


@asynccontextmanager
async def long_history(limits: Limits = LIMITS) -> AsyncIterator[tuple[RealServer, Any, PandoClient]]:
    """Connect a pando client to a conversation with a turn and STORED messages that no client has seen."""
    async with (
        serving() as server,
        bridged(server.endpoint, listen="pando+tcp://127.0.0.1:0", limits=limits) as (app, address),
        PandoClient.connected(address) as client,
    ):
        server.model.push_text("Hello.")
        await client.turn("hi")
        store = server.server.state.store
        (conversation,) = {message.conversation_id for log in store._messages.values() for message in log}
        for number in range(STORED):
            await store.append_message(conversation, MessageDirection.INBOUND, f"note {number}")
        yield server, app, client


async def test_a_pando_client_reads_the_whole_history_of_a_smooth_server() -> None:
    async with long_history() as (_, _, client):
        messages = await client.call("message.list", session_id=client.session)
        assert [message["content"] for message in messages] == ["hi", "Hello.", *(f"note {n}" for n in range(STORED))]
