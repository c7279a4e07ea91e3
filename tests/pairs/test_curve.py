"""Two gateways with pando between them, encrypted by CURVE: a client of one talks to the backend of the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import aiohttp
import zmq.auth
from msgspec import structs

from dragoman.gateway.app import App
from dragoman.gateway.config.model import Limits
from dragoman.gateway.demo.backend import demo_backend
from dragoman.gateway.endpoint import parse
from tests.pairs.gateway import DEADLINE, LIMITS, SmoothClient, bridged, serving

REFUSED = structs.replace(LIMITS, open_deadline=0.5, snapshot_wait=0.5)


@asynccontextmanager
async def two_gateways(keys: Path, key: str, limits: Limits = LIMITS) -> AsyncIterator[tuple[App, str]]:
    """Run a gateway that knows the key of `client`, and yield another one that dials it with `key`, and its URL."""
    for name in ("server", "client", "stranger"):
        zmq.auth.create_certificates(keys, name)
    server = f"?curve_key=file:{keys}/server.key_secret&client_keys={keys}/client.key"
    client = f"?curve_key=file:{keys}/{key}.key_secret&server_key=file:{keys}/server.key"
    async with (
        asyncio.timeout(DEADLINE),
        serving(demo_backend(parse(f"pando+tcp://127.0.0.1:0{server}"), limits=LIMITS)) as (first,),
        bridged(f"{first}{client}", limits=limits) as second,
    ):
        yield second


async def test_a_turn_reaches_the_other_gateway_with_a_key_that_it_knows(tmp_path: Path) -> None:
    async with two_gateways(tmp_path, "client") as (_, url), SmoothClient.connected(url) as user:
        request = await user.say("Hello")
        ended = {"type": "eventual_response", "requestId": request}
        await user.until(lambda: any(ended.items() <= frame.items() for frame in user.frames))
        assert [frame["type"] for frame in user.frames].count("stream_token") > 1, "it streams: nothing was inferred"


async def test_a_gateway_with_another_key_is_refused_and_logs_the_reason(tmp_path: Path) -> None:
    async with (
        two_gateways(tmp_path, "stranger", REFUSED) as (second, url),
        aiohttp.ClientSession() as http,
        http.ws_connect(url) as user,
    ):
        await user.send_json({"action": "create_conversation_session", "requestId": "r", "agentId": str(uuid4())})
        assert "error" in await user.receive_json()
        assert "the listener does not accept our public key" in second.upstreams.statuses["test"].fault
