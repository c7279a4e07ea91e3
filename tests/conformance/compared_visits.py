"""Play the same visit twice: directly at a smooth server, and through the gateway (docs/translation.md, rule
4.12).

A visit is a function that sends frames to a server and reads the answers. It runs once at the server itself and once
through `smooth -> smooth`, each time with a new server and the same script. After ids and times are replaced by names,
both clients must have received equal frames. `FREE` lists what may differ, with the section of docs/dialects/smooth.md.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from difflib import unified_diff
from typing import Any

import aiohttp

from tests.pairs.gateway import bridged
from tests.peers.smooth_server import RealServer, serving
from tests.smooth_frame_check import check

Frame = dict[str, Any]

AGENT = "11111111-1111-4111-8111-111111111111"
DEADLINE = 20.0  # seconds for the next frame of a scripted server on this machine
TERMINALS = ("eventual_response", "error", "cancelled")
OPAQUE = {"timestamp": "time", "createdAt": "time", "updatedAt": "time", "nextCursor": "cursor"}
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

OWN_WORDS = frozenset(
    (
        "VALIDATION_ERROR",
        "UNSUPPORTED_ACTION",
        "TURN_IN_PROGRESS",
        "NO_PENDING_CONFIRMATION",
        "NO_PENDING_INTERACTION",
        "INTERACTION_MISMATCH",
    )
)
"""Codes that the gateway answers by itself, in words of its own: texts differ between servers (section 8)."""


class VisitingClient:
    """A client of a visit: a bare socket; `frames` has what it received."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, *, strict: bool) -> None:
        self.frames: list[Frame] = []
        self.session = ""
        self.conversation = ""
        self._socket = socket
        self._strict = strict
        self._fences = 0

    async def say(self, frame: Frame | str | bytes) -> None:
        """Send an action as JSON, or any other value unchanged."""
        if isinstance(frame, bytes):
            await self._socket.send_bytes(frame)
        else:
            await self._socket.send_str(frame if isinstance(frame, str) else json.dumps(frame))

    async def read(self, last: Callable[[Frame], bool]) -> Frame:
        """Read up to the first frame for which `last` is true."""
        async with asyncio.timeout(DEADLINE):
            while True:
                frame: Frame = await self._socket.receive_json()
                if self._strict:
                    check(frame)
                self.frames.append(frame)
                if last(frame):
                    return frame

    async def read_type(self, *kinds: str) -> Frame:
        """Read up to the first frame of one of these types."""
        return await self.read(lambda frame: frame["type"] in kinds)

    async def ask(self, action: str, request: str | None, /, **fields: Any) -> Frame:
        """Send an action and read up to its answer: the first frame that belongs to no turn."""
        ids = {} if request is None else {"requestId": request}
        await self.say({"action": action, **ids, **fields})
        return await self.read(lambda frame: not frame["type"].startswith("stream_"))

    async def open(self, request: str = "create", /, **fields: Any) -> Frame:
        """Open a session; later actions of this client name it."""
        opened = await self.ask("create_conversation_session", request, agentId=AGENT, **fields)
        self.session, self.conversation = opened["data"]["sessionId"], opened["data"]["conversationId"]
        return opened

    async def send(self, request: str, text: str, /, **fields: Any) -> None:
        """Begin a turn and read nothing."""
        message = {"action": "send_message", "requestId": request, "sessionId": self.session, "message": text}
        await self.say(message | fields)

    async def turn(self, request: str, text: str, /, **fields: Any) -> Frame:
        """Run a whole turn; return its terminal."""
        await self.send(request, text, **fields)
        return await self.read(lambda frame: frame["type"] in TERMINALS and frame.get("requestId") == request)

    async def leave(self) -> None:
        """Read everything that was sent so far, and disconnect."""
        if not self._socket.closed:
            await self.fence()
            await self._socket.close()

    async def fence(self) -> None:
        """Read everything that was sent so far, up to the answer to a ping."""
        self._fences += 1
        request = f"fence-{self._fences}"
        await self.say({"action": "ping", "requestId": request})
        await self.read(lambda frame: frame["type"] == "pong" and frame.get("requestId") == request)


class Visit:
    """The scripted server of a visit, and the clients connected to it or to the gateway."""

    def __init__(self, server: RealServer, url: str, stack: AsyncExitStack, *, strict: bool) -> None:
        self.server = server
        self.visitors: list[VisitingClient] = []
        self._url = url
        self._stack = stack
        self._strict = strict

    async def connect(self, *, elsewhere: bool = False) -> VisitingClient:
        """Connect a further client. With `elsewhere` it never uses the gateway, which therefore does not know its
        sessions.
        """
        http = await self._stack.enter_async_context(aiohttp.ClientSession())
        socket = await self._stack.enter_async_context(http.ws_connect(self.server.url if elsewhere else self._url))
        self.visitors.append(VisitingClient(socket, strict=self._strict))
        return self.visitors[-1]

    async def open(self) -> VisitingClient:
        """Connect a further client, which opens a session."""
        client = await self.connect()
        await client.open()
        return client


Walk = Callable[[Visit], Awaitable[None]]


async def received(walk: Walk, *, through: bool, **parts: Any) -> list[str]:
    """Return the frames that the clients received, as JSON with placeholders for ids and times."""
    async with serving(**parts) as server, _door(server, through=through) as url, AsyncExitStack() as stack:
        visit = Visit(server, url, stack, strict=through)
        await walk(visit)
        for visitor in visit.visitors:
            await visitor.leave()
    return normal([frame for visitor in visit.visitors for frame in visitor.frames])


@asynccontextmanager
async def _door(server: RealServer, *, through: bool) -> AsyncIterator[str]:
    if not through:
        yield server.url
        return
    async with bridged(server.endpoint) as (_, url):
        yield url


def normal(frames: list[Frame]) -> list[str]:
    """Return frames as JSON with numbered ids, without times and free text."""
    names: dict[str, str] = {}

    def plain(value: Any, opaque: str = "") -> Any:
        if opaque and value is not None:
            return opaque
        match value:
            case dict():
                return {key: plain(value[key], OPAQUE.get(key, "")) for key in sorted(value)}
            case list():
                return [plain(item) for item in value]
            case str():
                return UUID.sub(lambda found: names.setdefault(found[0], f"#{len(names)}"), value)
            case _:
                return value

    return [json.dumps(plain(_without_free_text(frame)), ensure_ascii=False) for frame in frames]


def difference(straight: list[str], through: list[str]) -> str:
    """Return the frames that differ as text, "" if all are equal."""
    return "\n".join(unified_diff(straight, through, "without the gateway", "through it", n=0, lineterm=""))


def _without_free_text(frame: Frame) -> Frame:
    """Return the frame without the texts that docs/dialects/smooth.md leaves to each server (sections 4 and 8)."""
    match frame:
        case {"type": "immediate_response"}:
            return {key: value for key, value in frame.items() if key != "message"}
        case {"type": "error", "error": {"code": code}} if code in OWN_WORDS:
            frame = json.loads(json.dumps(frame))
            frame["error"]["message"] = frame["data"]["error"]["message"] = "..."
            return frame
        case _:
            return frame
