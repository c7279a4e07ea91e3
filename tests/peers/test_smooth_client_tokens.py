"""The real smooth client at a route that passes on the token of each client to the backend."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import jwt
import pytest
from smooth_operator.client import ProtocolError

from dragoman.gateway.app import App
from dragoman.gateway.config.access import settled
from dragoman.gateway.config.model import Auth, Config, Jwt, Route
from dragoman.gateway.endpoint import parse
from tests.conformance.fake_smooth import FakeSmooth
from tests.pairs.gateway import DEADLINE, LIMITS, serving
from tests.peers.real_smooth_client import RealSmoothClient, connected

pytestmark = pytest.mark.peers

SECRET = "s" * 40
AUTH = Auth(jwt=Jwt(secret=SECRET, audience="dragoman"))


def signed(number: str) -> str:
    """Return a token of alice; each number gives another one."""
    claims = {"sub": "alice", "aud": "dragoman", "exp": time.time() + 600, "jti": number}
    return jwt.encode(claims, SECRET, "HS256")


@asynccontextmanager
async def forwarding() -> AsyncIterator[tuple[FakeSmooth, str]]:
    """Yield a backend, and the URL of a gateway that passes on the tokens of its clients."""
    async with asyncio.timeout(DEADLINE), FakeSmooth.serving() as backend:
        listen = (parse("smooth+ws://127.0.0.1:0/ws"),)
        route = Route(name="a", listen=listen, upstream=parse(backend.url), upstream_auth="forward")
        app = App(Config(routes=(settled(route, AUTH),), limits=LIMITS, auth=AUTH))
        async with serving(app) as (endpoint,):
            yield backend, endpoint.partition("+")[2]


@asynccontextmanager
async def resumed(url: str, session: str) -> AsyncIterator[RealSmoothClient]:
    """Connect a client that goes on with a session."""
    client = RealSmoothClient(url)
    await client.smooth.connect()
    try:
        await client.smooth.get_session(session_id=session)
        client.session = session
        yield client
    finally:
        await client.smooth.disconnect()


async def test_a_client_with_a_renewed_token_resumes_its_session_and_the_backend_gets_that_token() -> None:
    first, second = signed("1"), signed("2")
    async with forwarding() as (backend, url):
        async with connected(f"{url}?token={first}") as client:
            await client.say("hello")
        assert backend.tokens == [first]
        async with resumed(f"{url}?token={second}", client.session) as again:
            await again.say("hello")
            assert backend.tokens == [first], "the connection of the session stands"
            held = again.say("hold")
            await backend.asked()
            await backend.hang_up(1001)
            with pytest.raises(ProtocolError):  # the turn is lost with its connection
                await held
            await again.say("hello")
            assert backend.tokens == [first, second]
