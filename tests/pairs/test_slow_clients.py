"""Clients that read slowly or not at all, on real sockets: they cost bounded memory, delay no other, and get
everything, or are told in the close frame why not.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from msgspec import structs
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config, Limits, Overflow, Route
from dragoman.gateway.demo.backend import demo_backend
from dragoman.gateway.endpoint import parse
from tests.awaited import until
from tests.pairs.gateway import DEADLINE, LIMITS, SmoothClient, bridged, serving

TOKENS = 40_000  # more than the buffers of the sockets hold


async def test_a_client_that_does_not_read_delays_no_other(tmp_path: Path) -> None:
    pod = f"pod+unix:{tmp_path}/sock"
    limits = Limits(drain_deadline=0.5, outbox_soft=64 * 1024, log_max=2 * TOKENS)
    async with (
        serving(demo_backend(parse(pod))),
        bridged(pod, limits=limits) as (app, url),
        SmoothClient.connected(url) as reading,
        SmoothClient.connected(url) as stalled,
    ):
        stalled.stop_reading()
        waiting = await largest_outbox(app, reading)
        assert waiting < 4 * limits.outbox_soft, "one batch above the soft limit at most"
        expected = "".join(f"{n} " for n in range(TOKENS))
        assert reading.terminals()[0]["data"]["data"]["response"]["responseParts"] == [expected]
        stalled.read_on()
        await stalled.until(lambda: bool(stalled.terminals()))
        tokens = [f["token"] for f in stalled.frames if f["type"] == "stream_token"]
        assert "".join(tokens) == expected
        assert len(tokens) < TOKENS, "text deltas were merged for it"


@pytest.mark.parametrize(
    ("overflow", "limits", "reason"),
    [
        (
            "coalesce",
            Limits(drain_deadline=0.5, outbox_soft=64 * 1024, log_bytes=64 * 1024),
            "read too slowly: text that it had not received was dropped (`log_bytes`, `log_max`)",
        ),
        (
            "disconnect",
            Limits(drain_deadline=0.5, outbox_soft=64 * 1024),
            "does not read fast enough: more than `outbox_soft` waits, and `overflow` is disconnect",
        ),
    ],
)
async def test_a_client_that_is_too_slow_gets_the_reason_in_the_close_frame(
    tmp_path: Path, overflow: Overflow, limits: Limits, reason: str
) -> None:
    pod = parse(f"pod+unix:{tmp_path}/sock")
    route = Route(name="test", listen=(parse("smooth+ws://127.0.0.1:0/ws"),), upstream=pod, overflow=overflow)
    app = App(Config(routes=(route,), limits=limits))
    async with (
        serving(demo_backend(pod)),
        serving(app) as (endpoint, *_),
        connect(endpoint.partition("+")[2], max_queue=1) as client,
    ):
        await client.send(
            json.dumps({"action": "create_conversation_session", "requestId": "o", "agentId": f"{uuid4()}"})
        )
        session = json.loads(await client.recv())["data"]["sessionId"]
        count = {"action": "send_message", "requestId": "t", "sessionId": session, "message": f"count {TOKENS}"}
        await client.send(json.dumps(count))
        (link,) = app.links
        await until(lambda: not link.alive)
        with suppress(ConnectionClosed):
            async for _ in client:
                pass
        assert (client.close_code, client.close_reason) == (1013, reason)


class PieceReader:
    """A client of a dialect of lines that reads from its socket only if the test asks for the next message."""

    def __init__(self, peer: socket.socket) -> None:
        self._peer = peer
        self._data = b""

    @classmethod
    @asynccontextmanager
    async def connected(cls, path: str) -> AsyncIterator[PieceReader]:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.setblocking(False)
            await asyncio.get_running_loop().sock_connect(peer, path)
            yield cls(peer)

    async def send(self, message: dict[str, Any]) -> None:
        await asyncio.get_running_loop().sock_sendall(self._peer, json.dumps(message).encode() + b"\n")

    async def receive(self) -> dict[str, Any]:
        while b"\n" not in self._data:
            data = await asyncio.get_running_loop().sock_recv(self._peer, 4096)
            assert data, "disconnected"
            self._data += data
        line, _, self._data = self._data.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message


@pytest.mark.parametrize("dialect", ["pod", "codewhale"])
async def test_a_client_that_reads_only_while_it_is_behind_gets_the_whole_text(tmp_path: Path, dialect: str) -> None:
    """`log_max` is far below the number of tokens, so text that is not merged would be dropped."""
    pod, mine = f"pod+unix:{tmp_path}/sock", tmp_path / "mine"
    mine.mkdir()
    listen = (parse("smooth+ws://127.0.0.1:0/ws"), parse(f"{dialect}+unix:{mine}/sock"))
    limits = structs.replace(LIMITS, outbox_soft=16 * 1024, log_max=1_000)
    app = App(Config(routes=(Route(name="test", listen=listen, upstream=parse(pod)),), limits=limits))
    async with (
        serving(demo_backend(parse(pod))),
        serving(app) as (url, _),
        SmoothClient.connected(url.partition("+")[2]) as reading,
        PieceReader.connected(f"{mine}/sock") as slow,
    ):
        await begin_turn(slow, dialect, reading)
        (link,) = [link for link in app.links if link.dialect.name == dialect]
        text = ""
        async with asyncio.timeout(DEADLINE):
            while True:
                await until(lambda: bool(link.behind) or bool(reading.terminals()))
                message = await slow.receive()
                if message.get("event") == "run_end" or message.get("id") == 2:
                    break
                if message.get("event") == "text_delta" or message.get("type") == "response_delta":
                    text += message["data"]["text"] if dialect == "pod" else message["delta"]
        assert text == "".join(f"{n} " for n in range(TOKENS))
        assert app.ledger.counters["events_merged"] > 0


async def begin_turn(client: PieceReader, dialect: str, reading: SmoothClient) -> None:
    """Begin a turn that the client is shown: of a codewhale client its own, of a pod client that of another one."""
    if dialect == "pod":
        assert (await client.receive())["event"] == "snapshot"
        await reading.say(f"count {TOKENS}")
    else:
        await client.send({"id": 1, "method": "thread/start", "params": {}})
        thread = (await client.receive())["result"]["thread_id"]
        params = {"thread_id": thread, "input": f"count {TOKENS}"}
        await client.send({"id": 2, "method": "thread/message", "params": params})


async def largest_outbox(app: App, reading: SmoothClient) -> int:
    """Let the backend count; return the largest number of frames that waited for any client meanwhile."""
    largest = 0
    await reading.say(f"count {TOKENS}")
    async with asyncio.timeout(DEADLINE):
        while not reading.terminals():
            await reading.news()
            largest = max([largest, *(link.outbox.size for link in app.links)])
    return largest
