"""Clients of the four dialects that count the ends of each turn, written without any code of the gateway.

A turn is lost if its client stays connected and never sees its end. It ended twice if its client sees two ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import aiohttp
import zmq
import zmq.asyncio
from msgspec import Struct, field

from tests.dialects import parts

ROOM = 1 << 24
CALL_DEADLINE = 8.0  # seconds for the answer to a call: above every deadline of the gateway under test
SUBSCRIBED = 0.05  # seconds between two looks whether a subscription has begun

Frame = dict[str, Any]


class ObservedTurn(Struct, eq=False):
    """A turn as its client sees it, with the number of ends that the client received."""

    ends: int = 0
    completed: bool = False
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self, *, completed: bool = False) -> None:
        self.ends += 1
        self.completed = self.completed or completed
        self.over.set()


class ChaosClient:
    """A client of one dialect. `gone` is set when its connection has ended; `strays` counts ends without a turn."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.turns: list[ObservedTurn] = []
        self.strays = 0
        self._numbers = count(1)

    def connect(self, address: str) -> AbstractAsyncContextManager[None]:
        """Connect and read in the background."""
        raise NotImplementedError

    async def open(self) -> None:
        """Open a session, in the way of the dialect."""
        raise NotImplementedError

    async def ask(self, text: str) -> ObservedTurn:
        """Begin a turn."""
        raise NotImplementedError

    async def ping(self) -> None:
        """Send a request that the gateway answers by itself, and wait for the answer."""
        raise NotImplementedError

    def most_ends(self) -> int:
        """Return the largest number of ends of one turn; it must be 1."""
        return max((turn.ends for turn in self.turns), default=0) + self.strays

    def begin_turn(self) -> ObservedTurn:
        turn = ObservedTurn()
        self.turns.append(turn)
        return turn


class ByRequest(ChaosClient):
    """The common part of smooth and codewhale clients, whose replies have the id of their request."""

    def __init__(self) -> None:
        super().__init__()
        self._requests: dict[Any, ObservedTurn] = {}
        self._replies: dict[Any, asyncio.Future[Frame]] = {}

    def note_end(self, request: Any, *, completed: bool) -> None:
        """Count the end of a turn, also of a turn that another client began."""
        self._requests.setdefault(request, ObservedTurn()).end(completed=completed)

    def most_ends(self) -> int:
        return max((turn.ends for turn in self._requests.values()), default=0)

    def note_reply(self, request: Any, frame: Frame) -> None:
        waiting = self._replies.pop(request, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(frame)

    async def reply_to(self, request: Any, sending: Any) -> Frame:
        """Send a request, and return the first reply; raise ConnectionError if the connection ends before."""
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._replies[request] = answer
        async with asyncio.timeout(CALL_DEADLINE):
            await sending
            return await answer

    def lose(self) -> None:
        """Mark the connection as ended."""
        self.gone.set()
        for waiting in self._replies.values():
            if not waiting.done():
                waiting.set_exception(ConnectionResetError("the gateway is gone"))
        self._replies.clear()


class SmoothChaosClient(ByRequest):
    """A smooth client over a WebSocket."""

    ENDS = ("eventual_response", "error", "cancelled")

    def __init__(self) -> None:
        super().__init__()
        self._socket: aiohttp.ClientWebSocketResponse
        self.session = ""

    @asynccontextmanager
    async def connect(self, address: str) -> AsyncIterator[None]:
        async with (
            aiohttp.ClientSession() as http,
            http.ws_connect(address, max_msg_size=0) as self._socket,
            asyncio.TaskGroup() as group,
        ):
            reader = group.create_task(self._read(), name="smooth client")
            try:
                yield
            finally:
                reader.cancel()

    async def _read(self) -> None:
        try:
            async for message in self._socket:
                if message.type is not aiohttp.WSMsgType.TEXT:
                    break
                frame: Frame = json.loads(message.data)
                request, kind = frame.get("requestId"), frame["type"]
                self.note_reply(request, frame)
                if request is not None and kind in self.ENDS:
                    self.note_end(request, completed=kind == "eventual_response")
        finally:
            self.lose()

    def _request(self, action: str, **fields: Any) -> Frame:
        return {"action": action, "requestId": f"r{next(self._numbers)}", **fields}

    async def open(self) -> None:
        frame = self._request("create_conversation_session", agentId=str(uuid4()))
        answer = await self.reply_to(frame["requestId"], self._socket.send_json(frame))
        if "error" in answer:
            raise ConnectionRefusedError(str(answer["error"]))
        self.session = answer["data"]["sessionId"]

    async def ask(self, text: str) -> ObservedTurn:
        frame = self._request("send_message", sessionId=self.session, message=text)
        turn = self._requests[frame["requestId"]] = self.begin_turn()
        await self._socket.send_json(frame)
        return turn

    async def ping(self) -> None:
        frame = self._request("ping")
        await self.reply_to(frame["requestId"], self._socket.send_json(frame))


class LineClient(ChaosClient):
    """The common part of pod and codewhale clients: JSON lines over a Unix socket.

    Only lines with one of `MARKS` are decoded: tokens of many clients would keep this program busier than the gateway.
    """

    MARKS: tuple[bytes, ...]

    def __init__(self) -> None:
        super().__init__()
        self._writer: asyncio.StreamWriter

    @asynccontextmanager
    async def connect(self, address: str) -> AsyncIterator[None]:
        reader, self._writer = await asyncio.open_unix_connection(address.removeprefix("unix:"), limit=ROOM)
        try:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(self._read(reader), name="line client")
                try:
                    yield
                finally:
                    task.cancel()
        finally:
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while (line := await reader.readline()).endswith(b"\n"):
                if any(mark in line for mark in self.MARKS):
                    self.note(json.loads(line))
        except OSError:
            pass
        finally:
            self.lose()

    def note(self, frame: Frame) -> None:
        """Process a received frame."""
        raise NotImplementedError

    def lose(self) -> None:
        self.gone.set()

    async def send(self, message: Frame) -> None:
        self._writer.write(json.dumps(message).encode() + b"\n")
        await self._writer.drain()


class PodChaosClient(LineClient):
    """A pod client: a run lasts from `status{running}` to the next other status, with at most one `run_end`."""

    MARKS = (b'"snapshot"', b'"status"', b'"run_end"', b'"completions"', b'"error"')

    def __init__(self) -> None:
        super().__init__()
        self._shown = asyncio.Event()
        self._completions: asyncio.Queue[str] = asyncio.Queue()
        self._asked: list[ObservedTurn] = []
        self._run: ObservedTurn | None = None
        self._run_ends = 0

    async def open(self) -> None:
        async with asyncio.timeout(CALL_DEADLINE):
            while not self._shown.is_set():
                if self.gone.is_set():
                    raise ConnectionResetError("the gateway is gone")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(SUBSCRIBED):
                        await self._shown.wait()

    async def ask(self, text: str) -> ObservedTurn:
        turn = self.begin_turn()
        self._asked.append(turn)
        await self.send({"method": "run", "params": {"input": [{"kind": "text", "content": text}]}})
        return turn

    async def ping(self) -> None:
        await self.send({"method": "list_completions", "params": {"kind": "workflow", "prefix": "ping"}})
        async with asyncio.timeout(CALL_DEADLINE):
            await self._completions.get()

    def note(self, frame: Frame) -> None:
        event, data = frame["event"], frame.get("data") or {}
        if event in ("snapshot", "status"):
            self._shown.set()
            self._status(data.get("status", "idle"))
        elif event == "run_end":
            self._run_ends += 1
            self.strays += self._run is None or self._run_ends > 1
        elif event == "completions":
            self._completions.put_nowait(event)
        elif event == "error" and self._asked and (self._run is None or data["code"] == "already_running"):
            self._asked.pop(0).end()  # refused

    def _status(self, status: str) -> None:
        if status == "running" and self._run is None:
            self._run = self._asked.pop(0) if self._asked else ObservedTurn()
            self._run_ends = 0
        elif status != "running" and self._run is not None:
            self._run.end(completed=self._run_ends == 1)
            self._run = None


class CodewhaleChaosClient(LineClient, ByRequest):
    """A codewhale client: a turn ends with the answer to its request."""

    MARKS = (b'"id"',)

    def __init__(self) -> None:
        super().__init__()
        self.thread = ""

    def lose(self) -> None:
        ByRequest.lose(self)

    def note(self, frame: Frame) -> None:
        if "id" in frame:
            self.note_reply(frame["id"], frame)
            if frame["id"] in self._requests:
                self.note_end(frame["id"], completed="result" in frame)

    def _call(self, method: str, **params: Any) -> Frame:
        return {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": params}

    async def open(self) -> None:
        call = self._call("thread/start")
        answer = await self.reply_to(call["id"], self.send(call))
        if "error" in answer:
            raise ConnectionRefusedError(str(answer["error"]))
        self.thread = answer["result"]["thread_id"]

    async def ask(self, text: str) -> ObservedTurn:
        call = self._call("thread/message", thread_id=self.thread, input=text)
        turn = self._requests[call["id"]] = self.begin_turn()
        await self.send(call)
        return turn

    async def ping(self) -> None:
        call = self._call("healthz")
        await self.reply_to(call["id"], self.send(call))


class PandoChaosClient(ChaosClient):
    """A pando client: a turn ends with `llm.end`. ZeroMQ reconnects by itself, so the client sees no disconnect.

    A run that ended in an error also has its `llm.end`, because dragoman is the primary.
    """

    def __init__(self) -> None:
        super().__init__()
        self.session = ""
        self._told: list[tuple[str, str]] = []
        self._news = asyncio.Event()
        self._open_turns: list[ObservedTurn] = []

    @asynccontextmanager
    async def connect(self, address: str) -> AsyncIterator[None]:
        url = urlsplit(address)
        assert url.port is not None
        calls = int(parse_qs(url.query).get("rpc", [str(url.port + 1)])[0])
        self._rpc = f"tcp://{url.hostname}:{calls}"
        self._context = zmq.asyncio.Context()
        try:
            subscriber = self._context.socket(zmq.SUB)
            subscriber.set(zmq.RCVHWM, 0)
            subscriber.subscribe(b"")
            subscriber.connect(f"tcp://{url.hostname}:{url.port}")
            async with asyncio.TaskGroup() as group:
                reader = group.create_task(self._read(subscriber), name="pando client")
                try:
                    yield
                finally:
                    reader.cancel()
        finally:
            self._context.destroy(linger=0)

    async def _read(self, subscriber: zmq.asyncio.Socket) -> None:
        while True:
            (frame,) = await subscriber.recv_multipart()
            if self.session.encode() not in frame:  # the publications of all other sessions come too
                continue
            envelope = json.loads(frame.partition(b"\0")[2])
            payload = envelope["payload"]
            session = payload.get("session_id") or payload.get("id") or ""
            self._told.append((envelope["topic"], session))
            self._news.set()
            if envelope["topic"] == "llm.end" and session == self.session:
                if self._open_turns:
                    self._open_turns.pop(0).end(completed=True)
                else:
                    self.strays += 1

    async def call(self, method: str, params: Any) -> Any:
        """Return the result of a call; ConnectionRefusedError if it is an error."""
        view = self._context.socket(zmq.DEALER)
        try:
            view.setsockopt(zmq.IDENTITY, f"chaos-{uuid4()}".encode())
            view.connect(self._rpc)
            request = {"jsonrpc": "2.0", "id": f"req-{next(self._numbers)}", "method": method, "params": params}
            await view.send_multipart([b"", json.dumps(request).encode()])
            async with asyncio.timeout(CALL_DEADLINE):
                reply = json.loads((await view.recv_multipart())[-1])
        finally:
            view.close(linger=0)
        if "error" in reply:
            raise ConnectionRefusedError(str(reply["error"]))
        return reply.get("result")

    async def open(self) -> None:
        nobody = {"String": "", "Valid": False}
        params = {"id": str(uuid4()), "parent_session_id": nobody, "title": "chaos", "message_count": 0}
        params |= {"prompt_tokens": 0, "completion_tokens": 0, "cost": 0}
        meta = {"source_instance_id": "", "request_id": "req-0", "timestamp": "2026-01-01T00:00:00Z"}
        row = await self.call("db.write", {"meta": meta, "method": "CreateSession", "params": params})
        self.session = str(row["id"])
        await self._subscribe()

    async def _subscribe(self) -> None:
        """Wait until publications arrive: a subscription begins some time after its connection."""
        async with asyncio.timeout(CALL_DEADLINE):
            while ("session.activated", self.session) not in self._told:
                await self.call("session.activate", {"session_id": self.session})
                self._news.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(SUBSCRIBED):
                        await self._news.wait()

    async def ask(self, text: str) -> ObservedTurn:
        turn = self.begin_turn()
        self._open_turns.append(turn)
        try:
            await self.call("message.send", {"session_id": self.session, "content": text})
        except ConnectionRefusedError:
            if turn in self._open_turns:
                self._open_turns.remove(turn)
                turn.end()
        except TimeoutError:
            pass  # the turn has no end, unless it is published
        return turn

    async def ping(self) -> None:
        await self.call("session.list", {})


@asynccontextmanager
async def connected(dialect: str, address: str) -> AsyncIterator[ChaosClient]:
    """Connect a client of this dialect, which has no session yet; the address has no `DIALECT+` before it."""
    client = parts(dialect).chaos_client()
    async with client.connect(address):
        yield client
