"""A pando client that behaves like the real ones (docs/dialects/pando.md, sections 2, 4, 5 and 9).

It subscribes to all topics. Each call uses a new connection with a new identity, which stays open, as pando's own views
do it. The next message on that connection is the answer, whatever its id. The client fails on every frame that section
5 forbids.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import zmq
import zmq.asyncio

from tests.awaited import Awaited
from tests.oracle.pando import PandoOracle
from tests.pando_frame_check import check_published, check_reply

DEADLINE = 20.0  # seconds for anything that a test waits for
NOBODY = {"String": "", "Valid": False}


class RefusalError(Exception):
    """A call was answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class PandoClient(Awaited):
    """A connected client; `told` are the received publications, `shown` is the text that its terminal shows."""

    def __init__(self, context: zmq.asyncio.Context, host: str, publications: int, calls: int, room: int) -> None:
        super().__init__()
        self._context = context
        self._calls = f"tcp://{host}:{calls}"
        self._subscriber = context.socket(zmq.SUB)
        self._subscriber.setsockopt(zmq.RCVHWM, room)
        if room:
            self._subscriber.setsockopt(zmq.RCVBUF, 64 * 1024)  # else the system may keep 32 MiB for it
        self._subscriber.subscribe(b"")
        self._subscriber.connect(f"tcp://{host}:{publications}")
        self._views: list[tuple[str, zmq.asyncio.Socket]] = []
        self._reading = asyncio.Event()
        self._reading.set()
        self._streamed: dict[str, list[str]] = {}
        self.oracle = PandoOracle()
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.shown: list[tuple[str, str]] = []
        self.session = ""

    @classmethod
    @asynccontextmanager
    async def connected(cls, address: str, session: str | None = None, room: int = 0) -> AsyncIterator[PandoClient]:
        """Connect to `tcp://HOST:PORT`, and open a session or watch the given one; "" for none. `room` is the number of
        messages that may wait for the client, 0 for no limit.
        """
        url = urlsplit(address)
        assert url.hostname is not None
        assert url.port is not None
        calls = int(parse_qs(url.query).get("rpc", [str(url.port + 1)])[0])
        context = zmq.asyncio.Context()
        client = cls(context, url.hostname, url.port, calls, room)
        try:
            async with asyncio.TaskGroup() as group:
                reader = group.create_task(client._read(), name="pando client")
                client.session = await client.open() if session is None else session
                if client.session:
                    await client.heard()
                yield client
                client.hold()
                reader.cancel()
        finally:
            context.destroy(linger=0)

    async def _read(self) -> None:
        while True:
            envelope = check_published(await self._subscriber.recv_multipart())
            self.oracle.got(envelope)
            self.told.append((envelope["topic"], envelope["payload"]))
            self._show(envelope["topic"], envelope["payload"])
            self.note()
            await self._reading.wait()

    def _show(self, topic: str, payload: dict[str, Any]) -> None:
        """Show text as the terminal's viewer: the `llm.end` of a run whose start it saw commits the streamed text."""
        session = payload.get("session_id", "")
        match topic:
            case "llm.start":
                self._streamed[session] = []
            case "llm.token" if session in self._streamed:
                self._streamed[session].append(payload["token"])
            case "llm.end" if session in self._streamed:
                self.shown.append(("assistant", "".join(self._streamed.pop(session))))
            case "message.append":
                self.shown.append((payload["role"], payload["content"]))

    async def heard(self) -> None:
        """Wait until new publications arrive. It asks for them repeatedly, because some are lost before the
        subscription begins or while the subscriber has no room.
        """
        shown = self.topics().count("session.activated")
        async with asyncio.timeout(DEADLINE):
            while self.topics().count("session.activated") == shown:
                assert await self.call("session.activate", session_id=self.session) == {"ok": True}
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await self.news()

    def stop_reading(self) -> None:
        """Read at most one more message until `read_on`."""
        self._reading.clear()

    def read_on(self) -> None:
        """Continue to read."""
        self._reading.set()

    # -- calls -----------------------------------------------------------------------------------------

    async def call(self, method: str, **params: Any) -> Any:
        """Return the result of a call; raise RefusalError if it was answered with an error."""
        return await self._call(method, params, method)

    async def write(self, method: str, params: Any) -> Any:
        """Write to the database; return the row."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        meta = {"source_instance_id": "", "request_id": f"req-{time.time_ns()}", "timestamp": now}
        return await self._call("db.write", {"meta": meta, "method": method, "params": params}, method)

    async def _call(self, method: str, params: Any, kind: str) -> Any:
        identity = f"pando-client-{time.time_ns()}"
        view = self._context.socket(zmq.DEALER)
        view.setsockopt(zmq.IDENTITY, identity.encode())
        view.connect(self._calls)
        self._views.append((identity, view))
        request = {"jsonrpc": "2.0", "id": f"req-{time.time_ns()}", "method": method, "params": params}
        self.oracle.called(identity, request)
        await view.send_multipart([b"", json.dumps(request).encode()])
        async with asyncio.timeout(DEADLINE):
            reply = check_reply(await view.recv_multipart(), kind)
        self.oracle.replied(identity, reply)
        if "error" in reply:
            raise RefusalError(reply["error"]["code"], reply["error"]["message"])
        return reply.get("result")

    async def open(self, title: str = "New Session") -> str:
        """Open a session as a secondary does; its id is in the row."""
        params = {
            "id": str(uuid4()),
            "parent_session_id": NOBODY,
            "title": title,
            "message_count": 0,
            "prompt_tokens": 0,
            "completion_tokens": 0,
            "cost": 0,
        }
        return str((await self.write("CreateSession", params))["id"])

    async def say(self, text: str) -> None:
        """Begin a turn."""
        assert await self.call("message.send", session_id=self.session, content=text) == {"ok": True}

    async def turn(self, text: str) -> None:
        """Begin a turn and wait for its end."""
        start = len(self.told)
        await self.say(text)
        await self.until(lambda: "llm.end" in self.topics(start))

    def topics(self, start: int = 0) -> list[str]:
        """Return the topics of the publications about our session since this mark."""
        told = self.told[start:]
        return [topic for topic, payload in told if self.session in (payload.get("session_id"), payload.get("id"))]

    def hold(self) -> None:
        """Assert that the client's terminal showed only the answer."""
        for identity, view in self._views:
            assert not int(view.getsockopt(zmq.EVENTS)) & zmq.POLLIN, f"{identity} was told more than its answer"
