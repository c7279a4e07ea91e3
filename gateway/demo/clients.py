"""Minimal clients of the four dialects for the demo, written without any code of the gateway.

`heard` contains the messages that a client received, each with its frame from the wire.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit
from uuid import uuid4

import aiohttp
import msgspec
import zmq
import zmq.asyncio
from msgspec import Struct

Kind = Literal["thinks", "says", "calls", "gets", "ends", "fails", ""]

DEADLINE = 10.0  # seconds for an answer, which takes milliseconds
LINE_MAX = 1 << 20  # bytes


class Heard(Struct, frozen=True):
    """A message that a client received: its kind, the text to show, and the frame."""

    kind: Kind
    text: str
    frame: str


class DemoClient(Protocol):
    """A client at an address of its dialect."""

    @asynccontextmanager
    def connect(self, address: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Connect, and yield the received frames."""

    async def begin(self) -> None:
        """Send the first messages of the dialect."""

    async def ask(self, text: str) -> None:
        """Send this input to the agent."""

    def read(self, frame: Any) -> tuple[Kind, str]:
        """Return the kind and text of a frame."""


class Listening:
    """A connected client with the messages that it received."""

    def __init__(self, name: str, client: DemoClient) -> None:
        self.name = name
        self.heard: list[Heard] = []
        self.begin, self.ask = client.begin, client.ask
        self._client = client
        self._news = asyncio.Event()

    async def listen(self, frames: AsyncIterator[bytes]) -> None:
        """Store the received frames."""
        async for frame in frames:
            kind, text = self._client.read(msgspec.json.decode(frame))
            self.heard.append(Heard(kind, text, frame.decode()))
            self._news.set()

    async def pieces(self, since: int) -> AsyncIterator[Heard]:
        """Yield the messages from number `since` on, and wait for further ones."""
        while True:
            while since == len(self.heard):
                self._news.clear()
                async with asyncio.timeout(DEADLINE):
                    await self._news.wait()
            yield self.heard[since]
            since += 1

    async def over(self, since: int) -> None:
        """Wait until a turn has ended."""
        async for piece in self.pieces(since):
            if piece.kind == "ends":
                return


class SmoothClient:
    """A smooth client: JSON envelopes over a WebSocket."""

    def __init__(self) -> None:
        self._socket: aiohttp.ClientWebSocketResponse
        self._session = ""
        self._opened = asyncio.Event()

    @asynccontextmanager
    async def connect(self, address: str) -> AsyncIterator[AsyncIterator[bytes]]:
        async with aiohttp.ClientSession() as http, http.ws_connect(address) as self._socket:
            yield self._frames()

    async def _frames(self) -> AsyncIterator[bytes]:
        async for message in self._socket:
            yield message.data.encode()

    async def begin(self) -> None:
        await self._send("create_conversation_session", agentId=str(uuid4()), userName="You")
        await self._opened.wait()

    async def ask(self, text: str) -> None:
        await self._send("send_message", sessionId=self._session, message=text)

    async def _send(self, action: str, **fields: str) -> None:
        await self._socket.send_json({"action": action, "requestId": str(uuid4()), **fields})

    def read(self, frame: Any) -> tuple[Kind, str]:
        match frame:
            case {"type": "immediate_response", "data": {"sessionId": session}}:
                self._session = session
                self._opened.set()
            case {"type": "stream_reasoning", "token": token}:
                return "thinks", token
            case {"type": "stream_token", "token": token}:
                return "says", token
            case {"type": "stream_chunk", "data": {"state": {"rawResponse": {"toolCall": call}}}}:
                return "calls", f"{call['name']} {call['arguments']}"
            case {"type": "stream_chunk", "data": {"state": {"rawResponse": {"toolResult": result}}}}:
                return "gets", str(result["result"])
            case {"type": "eventual_response"}:
                return "ends", ""
            case {"type": "error" | "cancelled"}:
                return "fails", str(frame)
        return "", ""


class Lines:
    """The common part of clients that exchange lines over a Unix socket."""

    def __init__(self) -> None:
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    @asynccontextmanager
    async def connect(self, address: str) -> AsyncIterator[AsyncIterator[bytes]]:
        path = address.removeprefix("unix:")
        self._reader, self._writer = await asyncio.open_unix_connection(path, limit=LINE_MAX)
        try:
            yield self._lines()
        finally:
            self._writer.close()

    async def _lines(self) -> AsyncIterator[bytes]:
        while line := await self._reader.readline():
            yield line.rstrip(b"\n")

    async def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(msgspec.json.encode(message) + b"\n")
        await self._writer.drain()


class PodClient(Lines):
    """A pod client: one JSON object a line. It receives everything once it is connected."""

    async def begin(self) -> None:
        """Do nothing: a pod client sends no first message."""

    async def ask(self, text: str) -> None:
        await self._send({"method": "run", "params": {"input": [{"kind": "text", "content": text}]}})

    def read(self, frame: Any) -> tuple[Kind, str]:
        match frame:
            case {"event": "thinking_delta", "data": {"text": text}}:
                return "thinks", text
            case {"event": "text_delta", "data": {"text": text}}:
                return "says", text
            case {"event": "tool_call_done", "data": {"name": name, "arguments": arguments}}:
                return "calls", f"{name} {arguments}"
            case {"event": "tool_result", "data": {"summary": summary}}:
                return "gets", str(summary)
            case {"event": "run_end"}:
                return "ends", ""
            case {"event": "error"}:
                return "fails", str(frame)
        return "", ""


class CodewhaleClient(Lines):
    """A codewhale client: JSON-RPC lines. A turn's text arrives in bare lines before the response."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = ""
        self._opened = asyncio.Event()

    async def begin(self) -> None:
        await self._call("thread/start")
        await self._opened.wait()

    async def ask(self, text: str) -> None:
        await self._call("thread/message", thread_id=self._thread, input=text)

    async def _call(self, method: str, **params: str) -> None:
        await self._send({"jsonrpc": "2.0", "id": str(uuid4()), "method": method, "params": params})

    def read(self, frame: Any) -> tuple[Kind, str]:
        match frame:
            case {"type": "response_delta", "delta": text}:
                return "says", text
            case {"result": {"status": "started", "thread_id": thread}}:
                self._thread = thread
                self._opened.set()
            case {"result": {"status": "accepted"}}:
                return "ends", ""
            case {"error": _}:
                return "fails", str(frame)
        return "", ""


class PandoClient:
    """A pando client that subscribes to everything and only watches."""

    def __init__(self) -> None:
        self._socket: zmq.asyncio.Socket

    @asynccontextmanager
    async def connect(self, address: str) -> AsyncIterator[AsyncIterator[bytes]]:
        url = urlsplit(address)
        context = zmq.asyncio.Context()
        try:
            self._socket = context.socket(zmq.SUB)
            self._socket.subscribe(b"")
            self._socket.connect(f"tcp://{url.hostname}:{url.port}")
            yield self._frames()
        finally:
            context.destroy(linger=0)

    async def _frames(self) -> AsyncIterator[bytes]:
        while True:
            (frame,) = await self._socket.recv_multipart()
            yield frame.partition(b"\0")[2]  # behind the topic

    async def begin(self) -> None:
        """Do nothing: a subscriber sends no first message."""

    async def ask(self, text: str) -> None:
        raise NotImplementedError(f"this one only watches: {text}")

    def read(self, frame: Any) -> tuple[Kind, str]:
        match frame:
            case {"topic": "llm.token", "payload": {"token": token}}:
                return "says", token
            case {"topic": "tool.start", "payload": {"tool_name": name, "params": params}} if params:
                return "calls", f"{name} {params}"
            case {"topic": "tool.end", "payload": {"result": result}}:
                return "gets", str(result)
            case {"topic": "llm.end"}:
                return "ends", ""
        return "", ""


CLIENTS: dict[str, Callable[[], DemoClient]] = {
    "smooth": SmoothClient,
    "pod": PodClient,
    "pando": PandoClient,
    "codewhale": CodewhaleClient,
}


@asynccontextmanager
async def connected(endpoint: str) -> AsyncIterator[Listening]:
    """Connect a client to an endpoint and send its first messages."""
    name, _, address = endpoint.partition("+")
    client = CLIENTS[name]()
    listening = Listening(name, client)
    async with client.connect(address) as frames, asyncio.TaskGroup() as group:
        reader = group.create_task(listening.listen(frames), name=f"{name} client")
        with contextlib.ExitStack() as stack:
            stack.callback(reader.cancel)
            async with asyncio.timeout(DEADLINE):
                await listening.begin()
            yield listening
