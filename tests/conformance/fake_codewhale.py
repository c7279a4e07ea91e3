"""A codewhale server at a Unix socket that follows docs/dialects/codewhale.md until a test makes it send something
else.

The gateway treats each connection as a separate process: it has one thread, and handles one request after the other.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import uuid4

from dragoman.mappings.codewhale.vocabulary import HEAD, methods
from tests.conformance.fake_line_server import FakeLineServer
from tests.mappings.codewhale.data import thread_row

NAME = "thr_1:turn_1"


def bare(kind: str, name: str = NAME, **more: Any) -> dict[str, Any]:
    """Return a bare line: a line of a response without `jsonrpc` and `id`."""
    return {"type": f"response_{kind}", "response_id": name, **more}


def accepted(thread: str, **more: Any) -> dict[str, Any]:
    """Return the result of a message."""
    return {
        "thread_id": thread,
        "status": "accepted",
        "thread": None,
        "threads": [],
        "model": None,
        "model_provider": None,
        "cwd": None,
        "approval_policy": None,
        "sandbox": None,
        "events": [],
        "data": {"turn_id": "turn_1"},
        **more,
    }


class FakeCodewhale(FakeLineServer):
    """A codewhale server that leaves a message `hold` open and answers every other one. `asked` is then the request,
    `thread` its thread. `can` are its methods. With None it refuses to list them, with () it never answers that
    question.
    """

    def __init__(self) -> None:
        super().__init__()
        self.can: list[str] | tuple[()] | None = methods(HEAD)
        self.asked: Any = None
        self.thread = ""
        self.interrupts: list[Any] = []

    async def answer(self, **more: Any) -> None:
        """Answer the message that is held, with `result` or `error`."""
        await self.say({"jsonrpc": "2.0", "id": self.asked, **more})

    async def holds(self) -> None:
        """Wait for a message that stays open."""
        await self.until(lambda: self.asked is not None)

    async def interrupted(self) -> None:
        """Wait for a request to interrupt."""
        await self.until(lambda: self.interrupts)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while line := await reader.readline():
            if not line.strip():
                continue
            request = json.loads(line)
            for said in self._said(request, writer):
                writer.write(json.dumps(said).encode() + b"\n")
            self.note()
        writer.close()

    def _said(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> list[dict[str, Any]]:
        method, params = request["method"], request.get("params") or {}
        head = {"jsonrpc": "2.0", "id": request["id"]}
        match method:
            case "capabilities" if self.can == ():
                return []
            case "capabilities" if self.can is not None:
                return [head | {"result": {"methods": self.can}}]
            case "thread/start":
                return [head | {"result": _opened(f"thread-{uuid4()}", "started")}]
            case "thread/resume":
                return [head | {"result": _opened(params["thread_id"], "resumed")}]
            case "thread/read":  # messages of a turn are not in its store
                return [head | {"result": _opened(params["thread_id"], "ok")}]
            case "thread/message" if params["input"] == "hold":
                self.asked, self.thread, self.writer = request["id"], params["thread_id"], writer
                return []
            case "thread/message":
                turn = [bare("start"), bare("delta", delta="Well."), bare("end")]
                return [*turn, head | {"result": accepted(params["thread_id"])}]
            case "thread/interrupt":
                self.interrupts.append(request["id"])
                return []
        return [head | {"error": {"code": -32601, "message": f"unsupported method: {method}", "data": None}}]


def _opened(thread: str, status: str) -> dict[str, Any]:
    data: dict[str, Any] = {"history": [], "checkpoint": None, "goal": None}
    return {
        "thread_id": thread,
        "status": status,
        "thread": thread_row(thread),
        "threads": [],
        "model": "auto",
        "model_provider": "deepseek",
        "cwd": "/w",
        "events": [],
        "data": data,
    }
