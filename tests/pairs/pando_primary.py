"""A pando primary for tests, on real sockets: it has sessions, answers calls, and publishes on request of a test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import Any

import zmq
import zmq.asyncio

from tests.awaited import Awaited
from tests.reserved_ports import reserved_port

DEADLINE = 20.0  # seconds for anything that a test waits for
SUBSCRIBED = 1
NO_ROWS = {"code": -32000, "message": "session.get: sql: no rows in result set"}
NO_SUMMARY = {"summary_message_id": {"String": "", "Valid": False}}
NO_METHOD = {"code": -32601, "message": "ipc: method not found"}


def row(id: str, title: str = "T", messages: int = 2) -> dict[str, Any]:
    """Return a session as a primary lists it."""
    return {"id": id, "title": title, "updated_at": "2026-05-09T21:28:20Z", "message_count": messages}


def message(id: str, role: str, content: str) -> dict[str, Any]:
    """Return a message as a primary lists it."""
    return {"id": id, "role": role, "content": content, "created_at": "2026-05-09T21:28:20Z"}


class PandoPrimary(Awaited):
    """A primary: `sessions` are its rows, `messages` those of each session, `called` the calls that it received."""

    def __init__(self, instance: str, ports: tuple[int, int]) -> None:
        super().__init__()
        self.instance = instance
        self.sessions: dict[str, dict[str, Any]] = {}
        self.messages: dict[str, list[dict[str, Any]]] = {}
        self.called: list[str] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._subscribed = asyncio.Event()
        self._context = zmq.asyncio.Context()
        self._publisher, self._router = self._context.socket(zmq.XPUB), self._context.socket(zmq.ROUTER)
        self._publisher.setsockopt(zmq.XPUB_VERBOSE, 1)
        self.ports = ports
        self._publisher.bind(f"tcp://127.0.0.1:{ports[0]}")
        self._router.bind(f"tcp://127.0.0.1:{ports[1]}")

    @classmethod
    @asynccontextmanager
    async def listening(cls, instance: str, ports: tuple[int, int] | None = None) -> AsyncIterator[PandoPrimary]:
        """Listen at two reserved ports, which another primary may use later, or at the given ones."""
        with nullcontext(ports) if ports else kept_pair() as at:
            made = cls(instance, at)
            try:
                async with asyncio.TaskGroup() as group:
                    made._tasks = [group.create_task(work, name="primary") for work in (made._answer(), made._listen())]
                    yield made
                    made.close()
            finally:
                made._context.destroy(linger=0)

    def close(self) -> None:
        """Stop the primary and free its ports."""
        for task in self._tasks:
            task.cancel()
        self._context.destroy(linger=0)  # waits until the sockets are closed

    @property
    def endpoint(self) -> str:
        publications, calls = self.ports
        return f"pando+tcp://127.0.0.1:{publications}?rpc={calls}"

    def has(self, session: dict[str, Any], *messages: dict[str, Any]) -> None:
        """Add this session with these messages."""
        self.sessions[session["id"]] = session
        self.messages[session["id"]] = list(messages)

    async def publish(self, topic: str, **payload: Any) -> None:
        """Publish after a client has subscribed."""
        async with asyncio.timeout(DEADLINE):
            await self._subscribed.wait()
        envelope = {"instanceId": self.instance, "projectId": "", "topic": topic, "payload": payload}
        await self._publisher.send(topic.encode() + b"\0" + json.dumps(envelope).encode())

    async def beat(self) -> None:
        """Publish a heartbeat."""
        await self.publish(
            "instance.heartbeat",
            instance_id=self.instance,
            session_count=0,
            uptime="5s",
            started_at="2026-05-09T21:28:20Z",
        )

    async def was_called(self, method: str, times: int) -> None:
        """Wait until this method was called this many times."""
        await self.until(lambda: self.called.count(method) >= times)

    async def _listen(self) -> None:
        while True:
            said = await self._publisher.recv()
            if said[0] == SUBSCRIBED:
                self._subscribed.set()

    async def _answer(self) -> None:
        while True:
            identity, _, body = await self._router.recv_multipart()
            call = json.loads(body)
            reply = {"jsonrpc": "2.0", "id": call["id"], **self._reply(call["method"], call.get("params") or {})}
            self.called.append(call["method"])
            self.note()
            await self._router.send_multipart([identity, b"", json.dumps(reply).encode()])

    def _reply(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        session = params.get("session_id", "")
        match method:
            case "instance.ping":
                return {"result": {"status": "ok", "instance_id": self.instance, "uptime": "0s"}}
            case "session.list":
                return {"result": [known for known in self.sessions.values() if known["message_count"]]}
            case "session.get" if session in self.sessions:
                return {"result": self.sessions[session]}
            case "session.get":
                return {"error": NO_ROWS}
            case "message.list":
                return {"result": self.messages.get(session, [])}
            case "db.write" if params["method"] == "CreateSession":
                created = params["params"]
                self.has(row(created["id"], created["title"], created["message_count"]))
                return {"result": {**created, "updated_at": 1778362100, "created_at": 1778362100, **NO_SUMMARY}}
            case _:
                return {"error": NO_METHOD}


@contextmanager
def kept_pair() -> Iterator[tuple[int, int]]:
    with reserved_port() as one, reserved_port() as other:
        yield one, other
