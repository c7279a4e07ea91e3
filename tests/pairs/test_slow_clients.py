"""A smooth client that does not read, on a real socket: it costs bounded memory, delays no other, and gets
everything, or is told in the close frame why not.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config, Limits, Overflow, Route
from dragoman.gateway.demo.backend import demo_backend
from dragoman.gateway.endpoint import parse
from tests.awaited import until
from tests.pairs.gateway import DEADLINE, SmoothClient, bridged, serving

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


async def largest_outbox(app: App, reading: SmoothClient) -> int:
    """Let the backend count; return the largest number of frames that waited for any client meanwhile."""
    largest = 0
    await reading.say(f"count {TOKENS}")
    async with asyncio.timeout(DEADLINE):
        while not reading.terminals():
            await reading.news()
            largest = max([largest, *(link.outbox.size for link in app.links)])
    return largest
