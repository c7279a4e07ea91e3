"""The real smooth client with a token: over TLS, and at a route that passes on tokens to the backend."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import jwt
import pytest
from smooth_operator.client import ProtocolError
from websockets.exceptions import InvalidStatus

from dragoman.gateway.app import App
from dragoman.gateway.config.access import resolve_access
from dragoman.gateway.config.model import Auth, Config, Jwt, Route
from dragoman.gateway.endpoint import parse
from tests.adapters.websocket.certificates import Authority
from tests.conformance.fake_smooth import FakeSmooth
from tests.gateway.identity.running import ALICE, gateway
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
        app = App(Config(routes=(resolve_access(route, AUTH),), limits=LIMITS, auth=AUTH))
        async with serving(app) as (endpoint,):
            yield backend, endpoint.partition("+")[2]


@pytest.fixture
async def secured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """Yield the URL of a gateway with TLS and tokens, whose authority the client trusts."""
    authority = Authority(tmp_path)
    certificate, key = authority.issue("gateway")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    listen = f"smooth+wss://127.0.0.1:0/ws?cert={certificate}&key={key}"
    async with gateway(listen, auth=Auth(tokens={"alice": ALICE})) as (_, (url,)):
        yield url


async def test_a_client_with_a_token_talks_over_tls(secured: str) -> None:
    async with asyncio.timeout(DEADLINE), connected(f"{secured}?token={ALICE}") as client:
        turn = client.say("Where is my order?")
        final = await turn
        assert client.tokens(turn.request_id) == "".join(final.data.data.response["responseParts"])


@pytest.mark.parametrize("query", ["", "?token=wrong-wrong-wrong"])
async def test_a_client_without_a_valid_token_opens_no_connection_over_tls(secured: str, query: str) -> None:
    with pytest.raises(InvalidStatus, match="401"):
        await RealSmoothClient(secured + query).smooth.connect()


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
