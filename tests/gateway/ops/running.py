"""A gateway with an ops port in the test's own loop, and requests to that port."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web
from pytest_aiohttp import AiohttpRawServer

from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config, Limits, Ops, Route
from dragoman.gateway.endpoint import parse
from dragoman.gateway.ops.server import OpsServer
from tests.pairs.gateway import LIMITS, serving

LOCAL = Ops(listen="http://127.0.0.1:0")


class OpsClient:
    """Sends requests to the ops port, and returns the status and the body."""

    def __init__(self, app: App, url: str, http: aiohttp.ClientSession, listening: list[str]) -> None:
        self.app = app
        self.url = url
        self.listening = listening
        self._http = http

    async def ask(self, path: str, method: str = "GET", **options: Any) -> tuple[int, Any]:
        """Return the status and the decoded JSON of an answer."""
        status, text, _headers = await self.ask_raw(path, method, **options)
        return status, json.loads(text)

    async def ask_raw(self, path: str, method: str = "GET", **options: Any) -> tuple[int, str, Any]:
        """Return the status, the text and the headers of an answer."""
        base = "http://dragoman" if self.url.startswith("unix:") else self.url
        async with self._http.request(method, base + path, **options) as answer:
            return answer.status, await answer.text(), answer.headers


@asynccontextmanager
async def operated(
    upstream: str = "pod+unix:/nowhere/sock",
    *,
    ops: Ops = LOCAL,
    limits: Limits = LIMITS,
    app: App | None = None,
) -> AsyncIterator[OpsClient]:
    """Serve a route with an ops port."""
    route = Route(name="test", listen=(parse("smooth+ws://127.0.0.1:0/ws"),), upstream=parse(upstream))
    app = app or App(Config(routes=(route,), limits=limits, ops=ops))
    async with OpsServer(ops, app) as server, serving(app) as listening:
        await app.ready.wait()
        unix = server.url.startswith("unix:")
        connector = aiohttp.UnixConnector(server.url.removeprefix("unix:")) if unix else aiohttp.TCPConnector()
        async with aiohttp.ClientSession(connector=connector) as http:
            yield OpsClient(app, server.url, http, listening)


async def answering(
    serve: AiohttpRawServer, text: str, status: int = 200, content_type: str = "application/json"
) -> str:
    """Start a server that answers each request like this; return its URL."""

    async def respond(_request: web.BaseRequest) -> web.Response:
        return web.Response(text=text, status=status, content_type=content_type)

    server = await serve(respond)
    return str(server.make_url("")).rstrip("/")
