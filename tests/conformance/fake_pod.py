"""A pod that follows docs/dialects/pod.md, section 8, until a test makes it send something else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from tests.conformance.fake_line_server import FakeLineServer
from tests.gateway.pod_messages import FINISHED, delta, done, problem, say, snapshot, status


class FakePod(FakeLineServer):
    """A pod on a socket. It leaves a run with the input `hold` open, and answers every other one at once."""

    def __init__(self) -> None:
        super().__init__()
        self._held = False

    async def holds(self) -> None:
        """Wait for a further run that stays open."""
        await self.until(lambda: self._held)
        self._held = False

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
            return [say("completions", kind=params["kind"], entries=[])]
        if method != "run":
            return [problem("invalid_request", f"no {method} here")]
        begun = [say("user_message", segments=params["input"]), status("running")]
        if params["input"][0]["content"] == "hold":
            self._held = True
            self.note()
            return begun
        return [*begun, say("turn_start", turn=0), delta("Well."), done("Well."), *FINISHED]
