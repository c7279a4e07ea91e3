"""The real smooth client from PyPI, with a tap that checks every received frame against the strict shapes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from smooth_operator import SmoothAgentClient
from smooth_operator.transport import WebSocketTransport

from tests.oracle import SmoothOracle
from tests.pairs.gateway import DEADLINE
from tests.smooth_frame_check import check


class CheckedTransport(WebSocketTransport):  # type: ignore[misc]  # the package brings no types
    """The real transport; the oracle also receives what is sent on it."""

    oracle: SmoothOracle

    def send(self, data: str) -> None:
        self.oracle.said(json.loads(data))
        super().send(data)


class RealSmoothClient:
    """A connected client with its session, and every frame that it received."""

    def __init__(self, url: str) -> None:
        transport = CheckedTransport(url)
        self.oracle = transport.oracle = SmoothOracle()
        transport.on_message(self._tap)
        self.smooth = SmoothAgentClient(url, transport=transport, request_timeout=DEADLINE, turn_timeout=60)
        self.frames: list[dict[str, Any]] = []
        self.session = ""
        self.wrong: list[str] = []
        self._news = asyncio.Event()

    def _tap(self, data: str) -> None:
        frame = json.loads(data)
        self.frames.append(frame)
        self._news.set()
        try:
            check(frame)
            self.oracle.got(frame)
        except AssertionError as error:  # raised here it would vanish in the client's reader
            self.wrong.append(f"{error}: {data}")

    async def news(self) -> None:
        """Wait for the next frame."""
        self._news.clear()
        await self._news.wait()

    async def until(self, kind: str, count: int = 1) -> None:
        """Wait for `count` frames of this type."""
        async with asyncio.timeout(DEADLINE):
            while self.kinds().count(kind) < count:
                await self.news()

    async def open(self) -> None:
        session = await self.smooth.create_conversation_session(agent_id=str(uuid4()), user_name="Ann")
        self.session = str(session.session_id)

    def say(self, text: str) -> Any:
        """Begin a turn."""
        return self.smooth.send_message(session_id=self.session, message=text)

    def kinds(self, request: str | None = None) -> list[str]:
        """Return the types of the frames so far, of one request or of all."""
        return [frame["type"] for frame in self.frames if request in (None, frame.get("requestId"))]

    def tokens(self, request: str) -> str:
        """Return the streamed answer of one turn."""
        return "".join(
            frame["token"] for frame in self.frames if frame["type"] == "stream_token" and frame["requestId"] == request
        )


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[RealSmoothClient]:
    """Connect a client with an open session; at the end of the block every frame must have been strict."""
    client = RealSmoothClient(url)
    await client.smooth.connect()
    try:
        await client.open()
        yield client
    finally:
        await client.smooth.disconnect()
    assert not client.wrong, client.wrong
