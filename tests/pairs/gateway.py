"""The gateway in the test's own loop, on real sockets, and a plain smooth client that keeps every frame."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp

from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config, Limits, Route
from dragoman.gateway.endpoint import parse
from dragoman.gateway.upstreams import MakeInProcess
from tests.awaited import Awaited
from tests.oracle import SmoothOracle
from tests.smooth_frame_check import check

TERMINALS = {"eventual_response", "error", "cancelled"}
# A test that leaves a turn open does not wait for its end. A pod client waits longer for its backend's state, because
# the machine may be busy.
LIMITS = Limits(drain_deadline=0.5, snapshot_wait=10.0)
FORMS = ("identity_form", "choice_chips")  # the `supports` of a client that can show every form
DEADLINE = 40.0  # seconds for anything that a test waits for


@asynccontextmanager
async def bridged(
    upstream: str,
    *,
    limits: Limits = LIMITS,
    make_backend: MakeInProcess | None = None,
    listen: str = "smooth+ws://127.0.0.1:0/ws",
) -> AsyncIterator[tuple[App, str]]:
    """Run a gateway; yield it and the address of its listener, without its dialect."""
    route = Route(name="test", listen=(parse(listen),), upstream=parse(upstream))
    app = App(Config(routes=(route,), limits=limits), make_backend=make_backend)
    async with serving(app) as (endpoint, *_):
        yield app, endpoint.partition("+")[2]


@asynccontextmanager
async def serving(app: App) -> AsyncIterator[list[str]]:
    """Run an app; yield the endpoints of its listeners."""
    ready: asyncio.Queue[str] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        group.create_task(app.run(ready.put_nowait), name="app")
        try:
            yield [await ready.get() for route in app.config.routes for _ in route.listen]
        finally:
            app.stop.set()


class SmoothClient(Awaited):
    """A bare smooth client: the received frames are in `frames`, each checked for its shape and order."""

    deadline = DEADLINE

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        super().__init__()
        self.socket = socket
        self.oracle = SmoothOracle()
        self.frames: list[dict[str, Any]] = []
        self._ends: list[dict[str, Any]] = []
        self.session = ""
        self._reading = asyncio.Event()
        self._reading.set()
        self._number = 0

    @classmethod
    @asynccontextmanager
    async def connected(
        cls, url: str, supports: tuple[str, ...] = FORMS, trace: str = ""
    ) -> AsyncIterator[SmoothClient]:
        headers = {"traceparent": trace} if trace else {}
        async with (
            aiohttp.ClientSession() as http,
            http.ws_connect(url, max_msg_size=0, headers=headers) as socket,
            asyncio.TaskGroup() as group,
        ):
            client = cls(socket)
            reader = group.create_task(client._read(), name="client")
            opened = await client.ask(
                {"action": "create_conversation_session", "agentId": str(uuid4()), "supports": list(supports)}
            )
            client.session = opened["data"]["sessionId"]
            try:
                yield client
            finally:
                reader.cancel()

    async def _read(self) -> None:
        async for message in self.socket:
            frame = json.loads(message.data)
            check(frame)
            self.oracle.got(frame)
            self.frames.append(frame)
            if frame["type"] in TERMINALS and "requestId" in frame:
                self._ends.append(frame)
            self.note()
            await self._reading.wait()

    def stop_reading(self) -> None:
        """Read at most one more frame until `read_on`."""
        self._reading.clear()

    def read_on(self) -> None:
        """Continue to read."""
        self._reading.set()

    async def send(self, frame: dict[str, Any]) -> str:
        """Send a frame; return its request id, which is added if it has none."""
        self._number += 1
        frame = {"requestId": f"r{self._number}", **frame}
        self.oracle.said(frame)
        await self.socket.send_str(json.dumps(frame))
        return str(frame["requestId"])

    async def ask(self, frame: dict[str, Any]) -> dict[str, Any]:
        """Send a frame and wait for the first frame that answers it."""
        request = await self.send(frame)
        await self.until(lambda: any(f.get("requestId") == request for f in self.frames))
        return next(f for f in self.frames if f.get("requestId") == request)

    async def say(self, text: str) -> str:
        """Begin a turn; return its request id."""
        return await self.send({"action": "send_message", "sessionId": self.session, "message": text})

    async def turn(self, text: str) -> str:
        """Run a turn that completes; return its request id."""
        request = await self.say(text)
        await self.until(lambda: any(end["requestId"] == request for end in self._ends))
        assert self.of(request)[-1]["type"] == "eventual_response"
        return request

    def terminals(self) -> list[dict[str, Any]]:
        """Return the terminal frames of turns, in order; an `error` without request id ends no turn."""
        return self._ends.copy()

    def of(self, request: str) -> list[dict[str, Any]]:
        """Return all frames with this request id."""
        return [f for f in self.frames if f.get("requestId") == request]


def socket_path(folder: Path) -> Path:
    """Return the path of the socket of the tests' pod."""
    return folder / "sock"
