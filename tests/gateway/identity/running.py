"""A gateway that authenticates its clients, in front of a demo backend, on real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from dragoman.gateway.app import App
from dragoman.gateway.config.access import resolve_access
from dragoman.gateway.config.model import Auth, Config, Limits, Route
from dragoman.gateway.demo.backend import demo_backend
from dragoman.gateway.endpoint import parse
from tests.pairs.gateway import serving

WS = "smooth+ws://127.0.0.1:0/ws"
ALICE, BOB = "alice-alice-alice", "bob-bob-bob-bob-bob"
AUTH = Auth(tokens={"alice": ALICE, "bob": BOB})
LIMITS = Limits(auth_delay=0.0, drain_deadline=0.5)


@asynccontextmanager
async def gateway(
    *listen: str,
    auth: Auth = AUTH,
    limits: Limits = LIMITS,
    principals: dict[str, tuple[str, ...]] | None = None,
    **options: Any,
) -> AsyncIterator[tuple[App, list[str]]]:
    """Run a gateway in front of its own demo backend; yield the addresses of its listeners without their dialect."""
    async with serving(demo_backend(parse("smooth+ws://127.0.0.1:0/ws"))) as (backend,):
        route = Route(name="test", listen=tuple(map(parse, listen)), upstream=parse(backend), **options)
        app = App(Config(routes=(resolve_access(route, auth),), limits=limits, auth=auth, principals=principals or {}))
        async with serving(app) as endpoints:
            yield app, [endpoint.partition("+")[2] for endpoint in endpoints]


async def shake(url: str, headers: dict[str, str] | None = None) -> tuple[int, str, str]:
    """Try to open a WebSocket; return status, challenge and text."""
    async with aiohttp.ClientSession() as http:
        upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
        key = {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
        async with http.get(url.replace("ws:", "http:", 1), headers={**upgrade, **key, **(headers or {})}) as answer:
            text = await answer.text() if answer.status != 101 else ""
            return answer.status, answer.headers.get("WWW-Authenticate", ""), text
