"""A pod that plays a recorded conversation in its recorded order, lane races included.

What the recorded client sent is waited for where dragoman can bring a client to say it (`run`, `cancel`), and passed
over where a smooth client has no word for it: to dragoman it is then another client's doing. The echo of an input is
the input that really came, as a real pod would echo it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

__all__ = ["PodPlayer", "Recording", "Turn"]


class Turn(Struct, kw_only=True):
    """What one recorded run showed: read off the frames alone, without any code of dragoman."""

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = []
    results: list[str] = []
    end: str = ""
    ours: bool = False

    def add(self, event: str, data: dict[str, Any]) -> None:
        """One event of the run's output."""
        match event:
            case "text_delta":
                self.text += data["text"]
            case "thinking_delta":
                self.reasoning += data["text"]
            case "tool_call_done":
                self.calls.append((data["name"], data["arguments"]))
            case "tool_result":
                self.results.append(data.get("output") or data["summary"])


class Recording:
    """One capture: connection `a` in order, and the turns that it shows."""

    def __init__(self, path: Path) -> None:
        lines = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
        self.messages: list[tuple[str, dict[str, Any]]] = [
            (line["dir"], json.loads(line["frame"])) for line in lines if line.get("conn") == "a"
        ]

    def expected(self, upto: int | None = None) -> list[Turn]:
        """The turns in the first `upto` messages, by the pod sheet's sections 6 to 8: a run lives from its first output
        or own input to `status` not running.
        """
        turns: list[Turn] = []
        turn: Turn | None = None
        asked = False
        error = result = ""
        for direction, frame in self.messages[:upto]:
            if direction == "c2s":
                asked = asked or frame["method"] == "run"
                continue
            event, data = frame["event"], frame.get("data") or {}
            starts = event in _CONTENT or (event == "status" and data["status"] == "running" and asked)
            if turn is None and starts:
                turn = Turn(ours=asked, calls=[], results=[])
                turns.append(turn)
                asked, error, result = False, "", ""
            if event == "error" and data["code"] == "already_running":
                asked = False
            elif turn is None:
                continue
            elif event == "run_end":
                result = data["result"]
            elif event == "error":
                error = data["message"]
            elif event == "status" and data["status"] != "running":
                turn.end = result or ("cancelled" if error == "Cancelled" else "failed" if error else "finished")
                turn = None
            else:
                turn.add(event, data)
        return turns


_CONTENT = {
    "text_delta",
    "text_done",
    "thinking_start",
    "thinking_delta",
    "thinking_done",
    "tool_call_start",
    "tool_call_args_delta",
    "tool_call_done",
    "tool_result",
    "turn_start",
    "turn_end",
    "llm_call_start",
    "llm_call_end",
    "llm_retry",
    "llm_continuation",
    "usage",
}


class PodPlayer:
    """Serves one recording on a Unix socket to the first connection. `say` and `cancel` make the client act."""

    def __init__(self, recording: Recording, path: Path) -> None:
        self._recording = recording
        self._path = path
        self.done = asyncio.Event()
        self.say: Callable[[str, int], Coroutine[Any, Any, None]]
        self.cancel: Callable[[], Coroutine[Any, Any, None]]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        server = await asyncio.start_unix_server(self._play, self._path, limit=1 << 24)
        try:
            yield
        finally:
            server.close()
            await server.wait_closed()

    async def _play(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        segments: list[Any] = []
        for at, (direction, frame) in enumerate(self._recording.messages):
            if direction == "s2c":
                echo = {"event": "user_message", "data": {"segments": segments}}
                said = echo if frame["event"] == "user_message" and segments else frame
                writer.write(json.dumps(said, ensure_ascii=False).encode() + b"\n")
                await writer.drain()
            elif frame["method"] == "run":
                ended = sum(1 for turn in self._recording.expected(at) if turn.end)
                await self.say(_flat(frame["params"]["input"]), ended)
                segments = json.loads(await reader.readline())["params"]["input"]
            elif frame["method"] == "cancel" and self._running(at):
                await self.cancel()
                assert json.loads(await reader.readline()) == {"method": "cancel"}
        self.done.set()
        await reader.read()
        writer.close()

    def _running(self, at: int) -> bool:
        turns = self._recording.expected(at)
        return bool(turns) and not turns[-1].end


def _flat(segments: list[dict[str, Any]]) -> str:
    sigil = {"file_ref": ("@", "path"), "knowledge_ref": ("#", "slug"), "workflow_invoke": ("/", "slug")}
    text = ""
    for segment in segments:
        before, key = sigil.get(segment["kind"], ("", "content"))
        text += before + segment.get(key, "")
    return text
