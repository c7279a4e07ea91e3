"""The real smooth client talks to a pod through `dragoman bridge` as a process."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from smooth_operator.client import ProtocolError

from dragoman.gateway.demo.backend import demo_backend
from dragoman.gateway.endpoint import parse
from tests.pairs.gateway import DEADLINE, serving
from tests.peers.processes import Process, running
from tests.peers.real_smooth_client import RealSmoothClient, connected

pytestmark = pytest.mark.peers

TERMINALS = {"eventual_response", "error", "cancelled"}


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[tuple[str, Process]]:
    backend = f"pod+unix:{tmp_path}/sock"
    async with running("bridge", "smooth+ws://127.0.0.1:0/ws", backend) as process:
        yield backend, process


@pytest.fixture
async def client(gateway: tuple[str, Process]) -> AsyncIterator[RealSmoothClient]:
    backend, process = gateway
    async with serving(demo_backend(parse(backend))), connected(process.url) as smooth:
        yield smooth


def parts(final: Any) -> str:
    return "".join(final.data.data.response["responseParts"])


async def test_a_turn_streams_reasoning_a_tool_call_and_text(client: RealSmoothClient) -> None:
    turn = client.say("Where is my order?")
    final = await turn
    kinds = client.kinds(turn.request_id)
    assert kinds[0] == "immediate_response"
    assert kinds[-1] == "eventual_response"
    assert {"stream_reasoning", "stream_chunk", "stream_token"} <= set(kinds)
    chunks = [f["data"]["state"]["rawResponse"] for f in client.frames if f["type"] == "stream_chunk"]
    assert chunks[0] == {"toolCall": {"name": "lookup_order", "arguments": '{"order":"A-1042"}'}}
    assert chunks[1]["toolResult"]["name"] == "lookup_order"
    assert "Kestrel" in chunks[1]["toolResult"]["result"]
    assert client.tokens(turn.request_id) == parts(final)
    assert parts(final).startswith("Let me look that up. Order A-1042")
    usage = final.data.data.usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (812 + 901, 41 + 24)


async def test_two_turns_then_history_newest_first(client: RealSmoothClient) -> None:
    first = parts(await client.say("Where is my order?"))
    second = parts(await client.say("Thank you!"))
    page = await client.smooth.get_messages(session_id=client.session)
    told = [(message.direction.value, message.content.text) for message in page.messages]
    assert told == [
        ("outbound", second),
        ("inbound", "Thank you!"),
        ("outbound", first),
        ("inbound", "Where is my order?"),
    ]
    assert page.has_more is False
    newest = await client.smooth.get_messages(session_id=client.session, limit=1)
    assert newest.has_more is True
    assert newest.next_cursor == str(newest.messages[0].id)
    terminal = [frame for frame in client.frames if frame["type"] == "eventual_response"][-1]
    assert terminal["data"]["data"]["messageId"] == str(newest.messages[0].id)


async def test_ping_get_session_and_list(client: RealSmoothClient) -> None:
    assert await client.smooth.ping() > 0
    session = await client.smooth.get_session(session_id=client.session)
    assert str(session.session_id) == client.session
    await client.say("Where is my order?")
    listed = await client.smooth.list_conversations()
    assert [row.title for row in listed.conversations] == ["Where is my order?"]


async def test_an_unknown_session_is_not_found(client: RealSmoothClient) -> None:
    with pytest.raises(ProtocolError) as refused:
        await client.smooth.get_session(session_id="00000000-0000-4000-8000-00000000dead")
    assert refused.value.code == "SESSION_NOT_FOUND"


async def test_cancel_in_the_middle_of_the_stream(client: RealSmoothClient) -> None:
    turn = client.say("slow please")
    await client.until("stream_token", 3)
    turn.cancel()
    final = await turn
    assert final.type == "cancelled"
    assert [kind for kind in client.kinds(turn.request_id) if kind in TERMINALS] == ["cancelled"]
    sent = len(client.frames)
    assert parts(await client.say("and now?")), "the next turn works"
    assert not [f for f in client.frames[sent:] if f.get("requestId") == turn.request_id], "nothing after the end"


async def test_cancel_before_any_output_rolls_the_input_back(client: RealSmoothClient) -> None:
    turn = client.say("wait for it")
    await client.until("immediate_response", 2)
    turn.cancel()
    assert (await turn).type == "cancelled"
    page = await client.smooth.get_messages(session_id=client.session)
    assert page.messages == []


async def test_cancel_at_once_ends_the_turn_once(client: RealSmoothClient) -> None:
    turn = client.say("wait for it")
    turn.cancel()
    assert (await turn).type == "cancelled"
    assert [kind for kind in client.kinds(turn.request_id) if kind in TERMINALS] == ["cancelled"]


async def test_a_failing_backend_ends_the_turn_with_one_error(client: RealSmoothClient) -> None:
    turn = client.say("fail now")
    with pytest.raises(ProtocolError) as failed:
        await turn
    assert "broke off" in str(failed.value)
    assert [kind for kind in client.kinds(turn.request_id) if kind in TERMINALS] == ["error"]
    assert client.kinds().count("error") == 1
    assert parts(await client.say("again"))


@pytest.mark.parametrize(
    ("said", "answer"), [("retry", "The second try worked."), ("limit", "This is as far as I may go")]
)
async def test_a_retried_and_a_limited_turn_complete(client: RealSmoothClient, said: str, answer: str) -> None:
    assert parts(await client.say(said)) == answer


async def test_a_second_input_during_a_turn_is_refused(client: RealSmoothClient) -> None:
    turn = client.say("slow please")
    await client.until("stream_token")
    with pytest.raises(ProtocolError) as refused:
        await client.say("me too")
    assert refused.value.code == "TURN_IN_PROGRESS"
    turn.cancel()
    await turn


async def test_twenty_thousand_tokens_arrive_whole_and_in_order(client: RealSmoothClient) -> None:
    turn = client.say("count 20000")
    final = await turn
    expected = "".join(f"{n} " for n in range(20_000))
    assert parts(final) == expected
    assert client.tokens(turn.request_id) == expected


async def test_a_backend_killed_in_mid_turn_ends_the_turn_and_the_next_one_works(gateway: tuple[str, Process]) -> None:
    backend, process = gateway
    async with running("demo-backend", backend) as pod, connected(process.url) as client:
        turn = client.say("slow please")
        await client.until("stream_token", 3)
        mark = len(process.log)
        await pod.kill()
        async with asyncio.timeout(DEADLINE):
            with pytest.raises(ProtocolError) as lost:
                await turn
        assert "lost" in str(lost.value)
        assert [kind for kind in client.kinds(turn.request_id) if kind in TERMINALS] == ["error"]
        # A kernel may close what a killed process listens on last: who connects again at once is let in and thrown out.
        await process.logs("backend not reachable", mark)
        with pytest.raises(ProtocolError) as refused:
            await client.say("anybody there?")
        assert "cannot be reached" in str(refused.value)
        async with running("demo-backend", backend):
            assert parts(await client.say("Where is my order?"))


async def test_the_gateway_starts_before_its_backend(gateway: tuple[str, Process]) -> None:
    backend, process = gateway
    async with connected(process.url) as client:
        with pytest.raises(ProtocolError) as refused:
            await client.say("hello?")
        why = "the socket does not exist; start the backend, or correct the path"
        assert str(refused.value) == f"the backend cannot be reached: {why}", "it names no path"
        async with running("demo-backend", backend):
            assert parts(await client.say("hello"))


async def test_two_clients_share_the_one_session_of_a_pod(
    client: RealSmoothClient, gateway: tuple[str, Process]
) -> None:
    async with connected(gateway[1].url) as other:
        assert other.session == client.session
        turn = client.say("Where is my order?")
        final = await turn
        await other.until("eventual_response")
        shown = {frame["requestId"] for frame in other.frames if frame["type"] == "stream_token"}
        assert len(shown) == 1
        assert turn.request_id not in shown, "a turn that it did not begin has the turn's own id"
        assert other.tokens(shown.pop()) == parts(final)
        assert other.kinds().count("immediate_response") == 1, "no 202 for somebody else's input"


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process from /proc")
async def test_a_client_that_does_not_read_costs_bounded_memory(gateway: tuple[str, Process]) -> None:
    """At the default limits, over several long turns, the process grows by less than its own bounds allow. The asking
    client is a plain one that reads only the end of a turn, because the real one would take most of the time.
    """
    backend, process = gateway
    host, port = process.url.removeprefix("ws://").partition("/")[0].split(":")
    async with running("demo-backend", backend), aiohttp.ClientSession() as http, http.ws_connect(process.url) as asker:
        await asker.send_json(OPEN)
        session = (await asker.receive_json())["data"]["sessionId"]
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(HANDSHAKE + masked(json.dumps(OPEN).encode()))
        await writer.drain()  # and from here on nothing of it is ever read
        await count(asker, session, 1000)
        before = process.resident()
        for _ in range(4):  # each turn fits into the log
            await count(asker, session, 50_000)
        assert process.resident() - before < 64 * 2**20
        writer.close()
        del reader


async def count(asker: aiohttp.ClientWebSocketResponse, session: str, tokens: int) -> None:
    """Run a turn with this many tokens."""
    await asker.send_json(
        {"action": "send_message", "requestId": "t", "sessionId": session, "message": f"count {tokens}"}
    )
    while '"eventual_response"' not in (said := await asker.receive_str()):
        pass
    assert f" {tokens - 1} " in said


OPEN = {"action": "create_conversation_session", "agentId": "a", "requestId": "c"}
HANDSHAKE = (
    b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def masked(text: bytes) -> bytes:
    """Return a WebSocket text message of a client, with a mask of zeros (RFC 6455, section 5.2)."""
    return bytes([0x81, 0x80 | len(text)]) + bytes(4) + text


async def test_a_reconnected_client_finds_its_session_and_history(
    client: RealSmoothClient, gateway: tuple[str, Process]
) -> None:
    answer = parts(await client.say("Where is my order?"))
    session = client.session
    await client.smooth.disconnect()
    async with connected(gateway[1].url) as back:
        found = await back.smooth.get_session(session_id=session)
        assert str(found.session_id) == session
        page = await back.smooth.get_messages(session_id=session)
        assert [message.content.text for message in page.messages] == [answer, "Where is my order?"]
        back.session = session
        assert parts(await back.say("Thank you!"))


async def test_a_gateway_whose_log_nobody_reads_goes_on(tmp_path: Path) -> None:
    backend = f"pod+unix:{tmp_path}/sock"
    async with running("demo-backend", backend), running("bridge", "smooth+ws://127.0.0.1:0/ws", backend) as process:
        process.deafen()
        async with connected(process.url) as one, connected(process.url) as two:
            assert parts(await one.say("Where is my order?"))
            assert two.session == one.session


async def test_sigterm_in_mid_turn_lets_the_turn_finish(tmp_path: Path) -> None:
    backend = f"pod+unix:{tmp_path}/sock"
    async with running("demo-backend", backend):
        async with running("bridge", "smooth+ws://127.0.0.1:0/ws", backend) as process:
            client = RealSmoothClient(process.url)
            await client.smooth.connect()
            await client.open()
            turn = client.say("Where is my order?")
            await client.until("stream_token")
            process.process.send_signal(signal.SIGTERM)
            assert parts(await turn)
            assert await process.ended() == 0
        await client.smooth.disconnect()
        assert not client.wrong
