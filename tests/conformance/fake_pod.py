"""A pod that follows docs/dialects/pod.md, section 8, until a test makes it send something else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from tests.conformance.fake_line_server import FakeLineServer

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


class FakePod(FakeLineServer):
    """A pod on a socket. It leaves a run with the input `hold` open, and answers every other one at once."""

    def __init__(self) -> None:
        super().__init__()
        self._held = False

    async def holds(self) -> None:
        """Wait for a run that stays open."""
        await self.until(lambda: self._held)

    async def connected(self, number: int) -> None:
        """Wait for the connection with this number."""
        await self.until(lambda: self.connections >= number)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writer = writer
        self.note()
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
            self._held = True
            self.note()
            return begun
        words = [event("text_delta", text="Well."), event("text_done", text="Well.")]
        return [*begun, event("turn_start", turn=0), *words, *ENDED]


ENDED = (event("run_end", result="finished"), event("status", status="idle"))
