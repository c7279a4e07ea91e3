"""The pod's own terminal client, as a pod sees it (docs/dialects/pod.md, sections 1.3, 2 and 8).

It probes the socket before it connects, keeps typed lines until the current run ends, and handles each key like the
real client. An event of a wrong type stops the real client's reader; here it fails the test.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from dragoman.mappings.pod.wire.events import Event
from tests.pairs.pod_client import PodClient

STRICT = msgspec.json.Decoder(Event)
AFTER_RUN = {"paused": "paused"}  # any other result is idle


class PodTerminalClient(PodClient):
    """A user's view of a pod: the status, the held lines, the editor, warnings, and whether the client quit."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer)
        self.status = ""
        self.held: list[str] = []
        self.editor = ""
        self.lines: list[str] = []
        self.warnings: list[str] = []
        self.quit = False
        self._calls: set[str] = set()

    @classmethod
    @asynccontextmanager
    async def started(cls, path: str) -> AsyncIterator[PodTerminalClient]:
        """Start a client on a pod's socket; it first checks whether a pod listens."""
        _, probe = await asyncio.open_unix_connection(path)
        probe.close()
        async with cls.connected(path) as client:
            assert isinstance(client, PodTerminalClient)
            yield client

    # -- received events -------------------------------------------------------------------------------

    def see(self, event: dict[str, Any]) -> None:
        STRICT.decode(json.dumps(event))
        data = event.get("data") or {}
        match event["event"]:
            case "snapshot" | "status":
                self.status = data.get("status", "idle")
            case "turn_start":
                self.status = "running"
            case "user_message":
                self.lines.append("".join(segment.get("content", "") for segment in data["segments"]))
            case "run_end":
                self._run_ended(data["result"])
            case "tool_call_start":
                self._calls.add(data["id"])
            case "tool_result" if data["id"] not in self._calls:
                self.warnings.append(f"a result of an unknown call {data['id']}")
            case "shutdown":
                self.quit = True
                self._writer.close()

    def _run_ended(self, result: str) -> None:
        self.status = AFTER_RUN.get(result, "idle")
        if result == "rolled_back" and self.lines:
            self.editor = self.lines.pop()
        if result in ("finished", "limit_reached") and self.held:
            self._write({"method": "run", "params": {"input": [{"kind": "text", "content": self.held.pop(0)}]}})

    # -- keys ------------------------------------------------------------------------------------------

    async def enter(self, text: str) -> None:
        """Type a line and press Enter."""
        if text and self.status == "running":
            self.held.append(text)
        elif text:
            await self.say(text)
        elif self.status == "paused":
            await self.send("resume")

    async def ctrl_c(self) -> None:
        """Interrupt the current run."""
        if self.status == "running":
            await self.send("pause")

    async def ctrl_x(self) -> None:
        """Stop the run, or the pod if none is open."""
        await self.send("cancel" if self.status == "running" else "shutdown")

    def _write(self, method: dict[str, Any]) -> None:
        self._writer.write(json.dumps(method).encode())
        self._writer.write(b"\n")

    # -- state for tests -------------------------------------------------------------------------------

    def since(self, mark: int) -> list[str]:
        """Return the names of the events after the first `mark`."""
        return self.names()[mark:]

    def text(self, mark: int) -> str:
        """Return the streamed text after the first `mark` events."""
        return "".join(data["text"] for name, data in self.events[mark:] if name == "text_delta")

    async def rests(self, mark: int, status: str = "idle") -> list[str]:
        """Wait until the pod reports this status again; return the names of the events after the first `mark`."""
        await self.until(lambda: ("status", {"status": status}) in self.events[mark:])
        return self.since(mark)
