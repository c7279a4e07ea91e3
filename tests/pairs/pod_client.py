"""A pod client that behaves like the real ones: it writes JSON and newline separately, and fails on an unknown
event.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, get_args

from dragoman.mappings.pod.wire.events import Event
from tests.awaited import Awaited
from tests.oracle import PodOracle

KNOWN = {event.__struct_config__.tag for event in get_args(Event)}


class PodClient(Awaited):
    """A connected client; the received events are in `events`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__()
        self._reader = reader
        self._writer = writer
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.oracle = PodOracle()
        self.judged = True

    @classmethod
    @asynccontextmanager
    async def connected(cls, path: str) -> AsyncIterator[PodClient]:
        reader, writer = await asyncio.open_unix_connection(path, limit=1 << 24)
        client = cls(reader, writer)
        try:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(client._read(), name="pod client")
                await client.until(lambda: "snapshot" in client.names())
                try:
                    yield client
                finally:
                    task.cancel()
        finally:
            writer.close()

    async def _read(self) -> None:
        while line := await self._reader.readline():
            event = json.loads(line)
            assert event["event"] in KNOWN, f"a pod client's reader ends for good at {event['event']}"
            if self.judged:
                self.oracle.got(event)
            self.events.append((event["event"], event.get("data") or {}))
            self.see(event)
            self.note()

    def see(self, event: dict[str, Any]) -> None:
        """Process an event, in addition to keeping it."""

    async def send(self, method: str, **params: Any) -> None:
        """Write a method as the real client does."""
        message = {"method": method, **({"params": params} if params else {})}
        self.oracle.said(message)
        self._writer.write(json.dumps(message).encode())
        await self._writer.drain()
        self._writer.write(b"\n")
        await self._writer.drain()

    async def say(self, text: str) -> None:
        """Begin a run."""
        await self.send("run", input=[{"kind": "text", "content": text}])

    async def turn(self, text: str) -> None:
        """Run a turn that completes, and wait until the pod is idle again."""
        before, runs = self.idle(), self.names().count("run_end")
        await self.say(text)
        await self.until(lambda: self.idle() > before)
        assert self.names().count("run_end") == runs + 1

    def names(self) -> list[str]:
        """Return the names of the events so far."""
        return [name for name, _ in self.events]

    def idle(self) -> int:
        """The number of times that the pod reported to be idle."""
        return sum(1 for name, data in self.events if name == "status" and data["status"] != "running")

    def joined(self, name: str) -> str:
        """Return the joined text of all events with this name."""
        return "".join(data["text"] for event, data in self.events if event == name)
