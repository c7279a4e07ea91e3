"""The terminal client of the tests behaves like the real one (docs/dialects/pod.md, section 8); other tests
rely on it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.pod_messages import run, say, snapshot
from tests.pairs.gateway import DEADLINE
from tests.pairs.pod_terminal_client import PodTerminalClient

RUNNING = ("status", {"status": "running"})


class Pod:
    """The other end of the socket, driven by hand."""

    def __init__(self, status: str) -> None:
        self._status = status
        self._connections = 0
        self._ready = asyncio.Event()
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self.tui: PodTerminalClient

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        if self._connections == 1:  # section 2: a probe connects and drops at once
            assert await reader.read() == b""
            writer.close()
            return
        self._reader, self._writer = reader, writer
        writer.write(json.dumps(snapshot(status=self._status)).encode() + b"\n")
        self._ready.set()

    async def sends(self, *events: tuple[str, dict[str, Any]]) -> None:
        """Send these events and wait until the client has seen them."""
        before = len(self.tui.events)
        for name, data in events:
            self._writer.write(json.dumps(say(name, **data)).encode() + b"\n")
        await self.tui.until(lambda: len(self.tui.events) == before + len(events))

    async def hears(self) -> Any:
        """Return the next method."""
        async with asyncio.timeout(DEADLINE):
            return json.loads(await self._reader.readline())

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def playing(folder: Path, status: str = "idle") -> AsyncIterator[tuple[PodTerminalClient, Pod]]:
    pod = Pod(status)
    server = await asyncio.start_unix_server(pod.accept, folder / "sock")
    try:
        async with PodTerminalClient.started(f"{folder}/sock") as pod.tui:
            yield pod.tui, pod
    finally:
        pod.close()
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("result", ["finished", "limit_reached"])
async def test_input_typed_during_a_run_is_sent_after_it(tmp_path: Path, result: str) -> None:
    async with playing(tmp_path) as (tui, pod):
        await pod.sends(RUNNING)
        await tui.enter("one")
        await tui.enter("two")
        assert tui.held == ["one", "two"]
        await pod.sends(("run_end", {"result": result}))
        assert await pod.hears() == run("one")
        assert tui.held == ["two"]


@pytest.mark.parametrize("result", ["paused", "rolled_back"])
async def test_input_typed_during_a_run_is_kept_if_the_run_did_not_complete(tmp_path: Path, result: str) -> None:
    async with playing(tmp_path) as (tui, pod):
        await pod.sends(RUNNING)
        await tui.enter("one")
        rest = "paused" if result == "paused" else "idle"
        await pod.sends(("run_end", {"result": result}), ("status", {"status": rest}))
        await tui.enter("two")
        assert await pod.hears() == run("two"), "nothing was sent before it"
        assert tui.held == ["one"]


@pytest.mark.parametrize(
    ("status", "key", "method"),
    [
        ("running", "ctrl_c", "pause"),
        ("running", "ctrl_x", "cancel"),
        ("paused", "ctrl_x", "shutdown"),
        ("idle", "ctrl_x", "shutdown"),
        ("paused", "enter", "resume"),
    ],
)
async def test_the_meaning_of_a_key_depends_on_the_status(tmp_path: Path, status: str, key: str, method: str) -> None:
    async with playing(tmp_path, status) as (tui, pod):
        await (tui.enter("") if key == "enter" else getattr(tui, key)())
        assert await pod.hears() == {"method": method}


async def test_an_input_that_was_rolled_back_is_in_the_editor_again(tmp_path: Path) -> None:
    async with playing(tmp_path) as (tui, pod):
        segments = [{"kind": "text", "content": "never mind"}]
        await pod.sends(("user_message", {"segments": segments}), RUNNING, ("run_end", {"result": "rolled_back"}))
        assert (tui.editor, tui.lines) == ("never mind", [])


async def test_a_result_of_an_unknown_call_is_a_warning(tmp_path: Path) -> None:
    result = {"summary": "s", "is_error": False}
    async with playing(tmp_path) as (tui, pod):
        tui.judged = False  # no legal order
        await pod.sends(RUNNING, ("turn_start", {"turn": 0}), ("tool_call_start", {"id": "a", "name": "n"}))
        await pod.sends(("tool_result", {"id": "a", **result}))
        assert tui.warnings == []
        await pod.sends(("tool_result", {"id": "b", **result}))
        assert tui.warnings == ["a result of an unknown call b"]


async def test_an_ended_run_is_idle_before_its_status_event(tmp_path: Path) -> None:
    async with playing(tmp_path) as (tui, pod):
        await pod.sends(RUNNING, ("turn_start", {"turn": 0}))
        assert tui.status == "running"
        await pod.sends(("run_end", {"result": "paused"}))
        assert tui.status == "paused"


async def test_shutdown_ends_the_client(tmp_path: Path) -> None:
    async with playing(tmp_path) as (tui, pod):
        await pod.sends(("shutdown", {}))
        assert tui.quit


@pytest.mark.parametrize(
    "event", [("worker_event", {}), ("status", {"status": "draining"}), ("tool_result", {"id": "a"})]
)
async def test_an_event_of_another_type_ends_the_client(tmp_path: Path, event: tuple[str, dict[str, Any]]) -> None:
    with pytest.raises(BaseExceptionGroup) as died:
        async with playing(tmp_path) as (_, pod):
            await pod.sends(event)
    assert died.group_contains((AssertionError, ValueError), depth=1)
