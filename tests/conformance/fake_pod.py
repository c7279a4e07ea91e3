"""A pod that follows docs/dialects/pod.md, section 8, until a test makes it send something else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

DEADLINE = 20.0  # seconds for anything that a test waits for

GREETING = {
    "pod_name": "fake",
    "cwd": "/srv/fake",
    "provider": "unknown",
    "model": "none",
    "scope_summary": "",
    "tools": [],
    "context_window": 0,
    "context_tokens": 0,
}


def event(name: str, /, **data: Any) -> dict[str, Any]:
    """Return the line of an event, without `data` if it has none."""
    return {"event": name, "data": data} if data else {"event": name}


def snapshot(*entries: Any, status: str = "idle") -> dict[str, Any]:
    """Return the snapshot, the first event of a pod."""
    return event("snapshot", entries=list(entries), greeting=GREETING, status=status)


class FakePod:
    """A pod on a socket. It leaves a run with the input `hold` open, and answers every other one at once."""

    def __init__(self) -> None:
        self.connections = 0
        self._writer: asyncio.StreamWriter
        self._held = asyncio.Event()
        self._news = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def serving(cls, path: Path) -> AsyncIterator[FakePod]:
        pod = cls()
        server = await asyncio.start_unix_server(pod._serve, path, limit=1 << 26)
        try:
            yield pod
        finally:
            server.close()

    async def say(self, *said: dict[str, Any] | bytes) -> None:
        """Send these events, or raw bytes."""
        for one in said:
            self._writer.write(one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n")
        await self._writer.drain()

    async def holds(self) -> None:
        """Wait for a run that stays open."""
        async with asyncio.timeout(DEADLINE):
            await self._held.wait()

    async def connected(self, number: int) -> None:
        """Wait for the connection with this number."""
        async with asyncio.timeout(DEADLINE):
            while self.connections < number:
                self._news.clear()
                await self._news.wait()

    def hang_up(self) -> None:
        """Close the connection."""
        self._writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writer = writer
        self._news.set()
        await self.say(snapshot())
        while line := await reader.readline():
            method = json.loads(line)
            await self.say(*self._answer(method["method"], method.get("params") or {}))
        writer.close()

    def _answer(self, method: str, params: dict[str, Any]) -> Sequence[dict[str, Any]]:
        if method == "list_completions":
            return [event("completions", kind=params["kind"], entries=[])]
        if method != "run":
            return [event("error", code="invalid_request", message=f"no {method} here")]
        begun = [event("user_message", segments=params["input"]), event("status", status="running")]
        if params["input"][0]["content"] == "hold":
            self._held.set()
            return begun
        words = [event("text_delta", text="Well."), event("text_done", text="Well.")]
        return [*begun, event("turn_start", turn=0), *words, *ENDED]


ENDED = (event("run_end", result="finished"), event("status", status="idle"))
