"""The status of the connections to a backend, and gateways that end with their backend."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from uuid import UUID

import aiohttp

from dragoman.gateway.backends.status import BackendLosses, BackendStatus

DEADLINE = 20.0  # seconds for anything that a test waits for


def looked(*looks: tuple[float, BackendStatus]) -> list[str | None]:
    """Return what each look at a status finds, with a grace of 2 s."""
    losses = BackendLosses()
    return [losses.find_lost({"a": status}, now, lambda _route: 2.0) for now, status in looks]


THERE = BackendStatus(wanted=1, connected=1, heard=1)
GONE = BackendStatus(wanted=1, dropped=1)
SILENT = BackendStatus(wanted=1, connected=1, dropped=1)


def test_a_backend_is_lost_once_the_grace_is_over() -> None:
    assert looked((0, THERE), (1, GONE), (2.9, GONE), (3, GONE)) == [None, None, None, "a"]


def test_a_backend_that_is_back_in_time_is_not_lost() -> None:
    back = BackendStatus(wanted=1, connected=1, heard=1, dropped=1)
    assert looked((0, THERE), (1, GONE), (2, back), (9, back)) == [None] * 4


def test_a_backend_that_was_never_reached_is_not_lost() -> None:
    unreachable = BackendStatus(wanted=1, lost=7)
    assert looked((0, unreachable), (60, unreachable)) == [None, None]


def test_a_backend_with_another_connection_is_not_lost() -> None:
    one_left = BackendStatus(wanted=2, connected=1, heard=1, dropped=1)
    assert looked((0, one_left), (60, one_left)) == [None, None]


def test_a_backend_that_accepts_and_says_nothing_is_lost_only_when_it_drops_that_connection_too() -> None:
    assert looked((1, GONE), (5, SILENT), (6, GONE)) == [None, None, "a"]


async def test_a_bridge_ends_with_its_backend_and_tells_why(tmp_path: Path) -> None:
    async def start(*arguments: str) -> asyncio.subprocess.Process:
        command = (sys.executable, "-m", "dragoman", *arguments)
        return await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)

    backend = await start("demo-backend", f"pod+unix:{tmp_path}/agent")
    bridge = await start("bridge", "smooth+ws://127.0.0.1:0/ws", f"pod+unix:{tmp_path}/agent", "--exit-on-backend-loss")
    try:
        async with asyncio.timeout(DEADLINE), aiohttp.ClientSession() as http:
            assert backend.stderr is not None
            assert bridge.stderr is not None
            await backend.stderr.readline()
            while not (line := await bridge.stderr.readline()).startswith(b"listening "):
                assert line
            url = line.decode().split()[1].removeprefix("smooth+")
            async with http.ws_connect(url) as client:
                agent = str(UUID(int=1))
                await client.send_json({"action": "create_conversation_session", "requestId": "1", "agentId": agent})
                session = (await client.receive_json())["data"]["sessionId"]
                await client.send_json(
                    {"action": "send_message", "requestId": "2", "sessionId": session, "message": "slow"}
                )
                while (await client.receive_json())["type"] != "stream_token":
                    pass
                backend.kill()
                errors = (await bridge.stderr.read()).decode()
            assert await bridge.wait() == 1
            assert "error: the backend of route 'bridge' is lost (--exit-on-backend-loss): " in errors
    finally:
        for process in (backend, bridge):
            if process.returncode is None:
                process.kill()
            await process.communicate()


def test_a_fault_is_over_once_the_backend_says_something() -> None:
    status = BackendStatus()
    status.note_fault("refused", 5)
    assert (status.fault, status.fault_at, status.lost) == ("refused", 5, 1)
    status.note_heard()
    assert (status.fault, status.heard, status.lost) == ("", 1, 1)
