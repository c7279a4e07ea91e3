"""Two gateways that are each other's backends."""

from __future__ import annotations

import aiohttp

from dragoman.adapters.hops import GATEWAYS_MAX
from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config, Route
from dragoman.gateway.endpoint import parse
from tests.pairs.gateway import LIMITS, serving
from tests.reserved_ports import reserved_port

AGENT = "0198c3a1-0000-4000-8000-0000000000a1"


async def test_a_client_of_gateways_that_lead_to_each_other_gets_an_error() -> None:
    with reserved_port() as one, reserved_port() as other:
        first, second = (App(Config(routes=(_route(*ports),), limits=LIMITS)) for ports in ((one, other), (other, one)))
        async with (
            serving(first),
            serving(second),
            aiohttp.ClientSession() as http,
            http.ws_connect(f"ws://127.0.0.1:{one}/ws") as socket,
        ):
            await socket.send_json({"action": "create_conversation_session", "requestId": "r", "agentId": AGENT})
            answer = await socket.receive_json()
            assert (answer["type"], answer["requestId"]) == ("error", "r")
            attempts = sum(app.upstreams.statuses["loop"].attempts for app in (first, second))
            assert attempts == GATEWAYS_MAX


def _route(own: int, other: int) -> Route:
    listen, upstream = (parse(f"smooth+ws://127.0.0.1:{port}/ws") for port in (own, other))
    return Route(name="loop", listen=(listen,), upstream=upstream)
