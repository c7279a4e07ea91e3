"""The token of a client goes to the backend on the connections of the client's sessions, and nowhere else."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from aiohttp import web
from pytest_aiohttp import AiohttpServer
from structlog.testing import capture_logs

from dragoman.gateway.app import App
from dragoman.gateway.config.access import resolve_access
from dragoman.gateway.config.model import Auth, Config, Route
from dragoman.gateway.endpoint import parse
from tests.pairs.gateway import DEADLINE, LIMITS, serving

TOKENS = {"alice": "token-of-alice-0123456789", "bob": "token-of-bob-0123456789"}
CREATE = '{"action":"create_conversation_session","requestId":"1","agentId":"6f9a1c1e-0000-4000-8000-000000000000"}'


@pytest.fixture
async def backend(aiohttp_server: AiohttpServer) -> tuple[str, asyncio.Queue[str]]:
    """The endpoint of a server that refuses every handshake, and the tokens that it was sent."""
    tokens: asyncio.Queue[str] = asyncio.Queue()

    async def refuse(request: web.Request) -> web.Response:
        token = request.query.get("token", "")
        tokens.put_nowait(token)
        return web.Response(status=401, text=f"{token} is not welcome")

    app = web.Application()
    app.add_routes([web.get("/ws", refuse)])
    server = await aiohttp_server(app)
    return f"smooth+ws://127.0.0.1:{server.port}/ws", tokens


@pytest.mark.parametrize("name", TOKENS)
async def test_the_backend_gets_the_token_of_the_client_that_opens_a_session(
    name: str, backend: tuple[str, asyncio.Queue[str]]
) -> None:
    auth, (upstream, tokens) = Auth(tokens=TOKENS), backend
    async with asyncio.timeout(DEADLINE):
        listen = (parse("smooth+ws://127.0.0.1:0/ws"),)
        route = Route(name="a", listen=listen, upstream=parse(upstream), upstream_auth="forward")
        app = App(Config(routes=(resolve_access(route, auth),), limits=LIMITS, auth=auth))
        headers = {"Authorization": f"Bearer {TOKENS[name]}"}
        with capture_logs() as logs:
            async with (
                serving(app) as listening,
                aiohttp.ClientSession(headers=headers) as http,
                http.ws_connect(listening[0].partition("+")[2]) as client,
            ):
                await client.send_str(CREATE)
                answer = await client.receive_str()
        assert await tokens.get() == TOKENS[name]
        assert TOKENS[name] not in answer
        assert "the backend does not accept the token of the session's owner (HTTP 401)" in answer
        assert "welcome" not in answer, "the backend's own text"
        assert TOKENS[name] not in str(logs)
