"""SIGTERM to a real gateway while clients flood it: signals are served, and the drain deadline holds."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from pathlib import Path

from aiohttp import ClientConnectionError, ClientSession, web
from pytest_aiohttp import AiohttpServer

from tests.chaos.processes import Program
from tests.conformance.fake_pod import FakePod

FLOODERS = 8
OPEN = {"action": "create_conversation_session", "requestId": "r", "agentId": "a", "userName": "x"}
CHUNK = b"x\n" * 128 * 1024  # more than the socket buffers hold, so a write ends only when the gateway reads
HOLD = {"method": "run", "params": {"input": [{"kind": "text", "content": "hold"}]}}


async def flood(path: Path, written: asyncio.Event) -> None:
    """Send bad lines until the gateway disconnects."""
    _, writer = await asyncio.open_unix_connection(path)
    with contextlib.suppress(ConnectionError):
        while True:
            writer.write(CHUNK)
            await writer.drain()
            written.set()
    writer.close()


async def test_a_gateway_that_is_flooded_ends_at_sigterm_within_the_drain_deadline() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = folder / "config.toml"
        config.write_text(
            f'[[route]]\nlisten = ["pod+unix:{folder}/ours"]\nupstream = "pod+unix:{folder}/pod"\n'
            "[limits]\ndrain_deadline = 1.0\n"
        )
        gateway = Program("dragoman", "serve", "--config", str(config))
        async with FakePod.serving(folder / "pod") as pod, asyncio.TaskGroup() as group:
            await gateway.start()
            _, holder = await asyncio.open_unix_connection(folder / "ours")
            holder.write(json.dumps(HOLD).encode() + b"\n")
            await pod.holds()
            flooding = [asyncio.Event() for _ in range(FLOODERS)]
            for number, written in enumerate(flooding):
                group.create_task(flood(folder / "ours", written), name=f"flood-{number}")
            for written in flooding:
                await written.wait()
            assert await gateway.terminate() == 0, "it ended by itself, before anybody had to kill it"
            holder.close()


async def hang_up(request: web.Request) -> web.WebSocketResponse:
    """Serve as a backend that ends each connection after its handshake."""
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    return socket


async def flood_with_opens(session: ClientSession, url: str, written: asyncio.Event) -> None:
    """Open sessions, each after an answer to an earlier one, until the gateway disconnects."""
    with contextlib.suppress(ClientConnectionError):
        async with session.ws_connect(url) as socket:
            for _ in range(100):
                await socket.send_json(OPEN)
            async for _ in socket:
                await socket.send_json(OPEN)
                written.set()


async def test_a_gateway_whose_clients_open_sessions_of_a_backend_that_hangs_up_ends_at_sigterm(
    aiohttp_server: AiohttpServer,
) -> None:
    app = web.Application()
    app.router.add_get("/ws", hang_up)
    backend = await aiohttp_server(app)
    upstream = f"smooth+ws://127.0.0.1:{backend.port}/ws"
    with tempfile.TemporaryDirectory() as name:
        config = Path(name) / "config.toml"
        config.write_text(f'[[route]]\nlisten = ["smooth+ws://127.0.0.1:0/ws"]\nupstream = "{upstream}"\n')
        gateway = Program("dragoman", "serve", "--config", str(config))
        async with ClientSession() as session, asyncio.TaskGroup() as group:
            await gateway.start()
            flooding = [asyncio.Event() for _ in range(FLOODERS)]
            for number, written in enumerate(flooding):
                url = gateway.endpoints[0].partition("+")[2]
                group.create_task(flood_with_opens(session, url, written), name=f"flood-{number}")
            for written in flooding:
                await written.wait()
            assert await gateway.terminate() == 0, "it ended by itself, before anybody had to kill it"
