"""The status of the connections to a backend, and gateways that end with their backend."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
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


def test_a_backend_that_returns_within_the_grace_is_not_lost() -> None:
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


def test_a_backend_that_was_found_reachable_is_looked_at_again_after_another_grace() -> None:
    losses = BackendLosses()
    assert [losses.find_lost({"a": GONE}, now, lambda _route: 2.0) for now in (0.0, 2.0)] == [None, "a"]
    losses.note_reachable("a", 2.0)
    assert [losses.find_lost({"a": GONE}, now, lambda _route: 2.0) for now in (3.9, 4.0)] == [None, "a"]


class Programs:
    """Programs of dragoman in processes of their own."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    async def start(self, *arguments: str) -> tuple[asyncio.subprocess.Process, str]:
        """Start a program; return it with the first endpoint that it listens at."""
        command = (sys.executable, "-m", "dragoman", *arguments)
        program = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        self._stack.push_async_callback(self._end, program)
        while not (line := await errors_of(program).readline()).startswith(b"listening "):
            assert line
        return program, line.decode().split()[1]

    async def _end(self, program: asyncio.subprocess.Process) -> None:
        if program.returncode is None:
            program.kill()
        await program.communicate()


def errors_of(program: asyncio.subprocess.Process) -> asyncio.StreamReader:
    assert program.stderr is not None
    return program.stderr


@asynccontextmanager
async def programs() -> AsyncIterator[Programs]:
    async with asyncio.timeout(DEADLINE), AsyncExitStack() as stack:
        yield Programs(stack)


async def say(client: aiohttp.ClientWebSocketResponse, text: str, until: str) -> None:
    """Open a session, say something in it, and read until a message of type `until`."""
    agent = str(UUID(int=1))
    await client.send_json({"action": "create_conversation_session", "requestId": "1", "agentId": agent})
    session = (await client.receive_json())["data"]["sessionId"]
    await client.send_json({"action": "send_message", "requestId": "2", "sessionId": session, "message": text})
    while (await client.receive_json())["type"] != until:
        pass


async def test_a_bridge_ends_with_its_backend_and_tells_why(tmp_path: Path) -> None:
    async with programs() as made, aiohttp.ClientSession() as http:
        backend, endpoint = await made.start("demo-backend", f"pod+unix:{tmp_path}/agent")
        bridge, url = await made.start("bridge", "smooth+ws://127.0.0.1:0/ws", endpoint, "--exit-on-backend-loss")
        async with http.ws_connect(url.removeprefix("smooth+")) as client:
            await say(client, "slow", until="stream_token")
            backend.kill()
            errors = (await errors_of(bridge).read()).decode()
        assert await bridge.wait() == 1
        assert "error: the backend of route 'bridge' is lost (--exit-on-backend-loss): " in errors


async def test_a_gateway_without_clients_ends_once_all_its_upstreams_are_killed(tmp_path: Path) -> None:
    async with programs() as made, aiohttp.ClientSession() as http:
        demos = [await made.start("demo-backend", "smooth+ws://127.0.0.1:0/ws") for _ in range(2)]
        config = tmp_path / "config.toml"
        config.write_text(
            "[limits]\nreconnect_grace = 0.2\n"
            '[[route]]\nname = "two"\nlisten = ["smooth+ws://127.0.0.1:0/ws"]\n'
            f"upstream = {[endpoint for _, endpoint in demos]}\n"
        )
        gateway, url = await made.start("serve", "--config", str(config), "--exit-on-backend-loss")
        async with http.ws_connect(url.removeprefix("smooth+")) as client:
            await say(client, "hi", until="eventual_response")
        while b"client disconnected" not in await errors_of(gateway).readline():
            pass
        for demo, _ in demos:
            demo.kill()
        errors = (await errors_of(gateway).read()).decode()
        assert await gateway.wait() == 1
        assert "error: the backend of route 'two' is lost (--exit-on-backend-loss): " in errors


def test_a_backend_fault_ends_with_the_next_frame_of_the_backend() -> None:
    status = BackendStatus()
    status.note_fault("refused", 5)
    assert (status.fault, status.fault_at, status.lost) == ("refused", 5, 1)
    status.note_heard()
    assert (status.fault, status.heard, status.lost) == ("", 1, 1)
