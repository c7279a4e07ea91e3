"""Errors about a failing backend name no path, address or command line of the gateway's machine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import aiohttp
import pytest
import zmq
import zmq.asyncio

from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config, Limits, Route
from dragoman.gateway.endpoint import parse
from tests.gateway.pod_messages import snapshot
from tests.pairs.gateway import serving

LIMITS = Limits(
    drain_deadline=0.1,
    snapshot_wait=0.1,
    connect_deadline=1.0,
    accept_deadline=2.0,
    backoff_first=0.05,
    reconnect_grace=0.1,
)
CLOSED = 9  # the port of `discard`, where nobody listens
FAILURES = {
    "no socket": "pod+unix:{folder}/none/sock",
    "no pod": "pod+dir:{folder}",
    "no listener": "pod+unix:{folder}/left",
    "hangs up": "pod+unix:{folder}/hangs",
    "no server": f"smooth+ws://127.0.0.1:{CLOSED}/secret",
    "no program": "codewhale+stdio:{folder}/none app-server --stdio",
    "ends at once": "codewhale+stdio:{python} {folder}/fails.py",
    "ends at the first word": "codewhale+stdio:{python} {folder}/dies.py",
    "no primary": f"pando+tcp://127.0.0.1:{CLOSED}",
    "no project": "pando+dir:{folder}/none",
}
FAILS = "import sys; sys.exit(f'no key in {__file__}')"
DIES = "import sys; sys.stdin.readline(); sys.exit(f'no key in {__file__}')"
LISTEN = (
    "smooth+ws://127.0.0.1:0/ws",
    "pod+unix:{folder}/in.sock",
    "pando+tcp://127.0.0.1:0",
    "codewhale+unix:{folder}/whale.sock",
)


@asynccontextmanager
async def failing(folder: Path) -> AsyncIterator[None]:
    """Return the programs and sockets of the failing backends."""
    (folder / "fails.py").write_text(FAILS)
    (folder / "dies.py").write_text(DIES)

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(json.dumps(snapshot()).encode() + b"\n")
        await reader.readline()
        writer.close()

    left = await asyncio.start_unix_server(hang_up, folder / "left")
    left.close()
    await left.wait_closed()
    async with await asyncio.start_unix_server(hang_up, folder / "hangs"):
        yield


async def told_to_smooth(url: str) -> AsyncIterator[str]:
    """Yield the frames of a smooth client that opens a session and sends an input."""
    create = {"action": "create_conversation_session", "requestId": "o", "agentId": str(uuid4())}
    async with aiohttp.ClientSession() as http, http.ws_connect(url) as socket:
        await socket.send_json(create)
        async for message in socket:
            yield str(message.data)
            opened = json.loads(message.data)
            if opened.get("requestId") == "o" and opened.get("data"):
                session = opened["data"]["sessionId"]
                said = {"action": "send_message", "requestId": "r", "sessionId": session, "message": "Hi"}
                await socket.send_json(said)


async def told_to_pod(address: str) -> AsyncIterator[str]:
    """Yield the frames of a pod client that sends an input."""
    async for line in lines(address, {"method": "run", "params": {"input": [{"kind": "text", "content": "Hi"}]}}):
        yield line


async def told_to_codewhale(address: str) -> AsyncIterator[str]:
    """Yield the frames of a codewhale client that begins a thread and sends an input."""
    start = {"jsonrpc": "2.0", "id": 1, "method": "thread/start", "params": {}}
    said = {"jsonrpc": "2.0", "id": 2, "method": "prompt/run", "params": {"prompt": "Hi"}}
    async for line in lines(address, start, said):
        yield line
        thread = json.loads(line).get("result", {}).get("thread_id")
        if thread:
            params = {"thread_id": thread, "input": "Hi"}
            async for more in lines(address, {**said, "method": "thread/message", "params": params}):
                yield more


async def lines(address: str, *frames: dict[str, object]) -> AsyncIterator[str]:
    """Return the lines that a client receives after sending these."""
    reader, writer = await asyncio.open_unix_connection(address.removeprefix("unix:"))
    try:
        writer.writelines(json.dumps(frame).encode() + b"\n" for frame in frames)
        while line := await reader.readline():
            yield line.decode()
    finally:
        writer.close()


async def told_to_pando(address: str) -> AsyncIterator[str]:
    """Yield the answers to a pando client that opens a session and sends an input."""
    publications, calls = urlsplit(address), parse_qs(urlsplit(address).query)
    assert publications.port is not None
    port = int(calls.get("rpc", [str(publications.port + 1)])[0])
    session = str(uuid4())
    create: dict[str, object] = {"method": "CreateSession", "params": {"id": session, "title": "T"}}
    asked: list[tuple[str, dict[str, object]]] = [
        ("db.write", create),
        ("message.send", {"session_id": session, "content": "Hi"}),
        ("session.list", {}),
    ]
    with zmq.asyncio.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(f"tcp://127.0.0.1:{port}")
        for number, (method, params) in enumerate(asked):
            call = {"jsonrpc": "2.0", "id": str(number), "method": method, "params": params}
            await socket.send_multipart([b"", json.dumps(call).encode()])
        for _ in asked:
            yield (await socket.recv_multipart())[-1].decode()


CLIENTS = {"smooth": told_to_smooth, "pod": told_to_pod, "pando": told_to_pando, "codewhale": told_to_codewhale}


@pytest.mark.parametrize("failure", FAILURES)
async def test_errors_about_a_failing_backend_name_no_local_path_address_or_command(
    failure: str, tmp_path: Path
) -> None:
    upstream = FAILURES[failure].format(folder=tmp_path, python=sys.executable)
    listen = tuple(parse(form.format(folder=tmp_path)) for form in LISTEN)
    app = App(Config(routes=(Route(name="test", listen=listen, upstream=parse(upstream)),), limits=LIMITS))
    told: dict[str, list[str]] = {}

    async def listen_to(dialect: str, address: str) -> None:
        frames = told[dialect] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                async for frame in CLIENTS[dialect](address):
                    frames.append(frame)
                    if '"error"' in frame:
                        return

    async with failing(tmp_path), serving(app) as endpoints, asyncio.TaskGroup() as group:
        for endpoint in endpoints:
            dialect, _, address = endpoint.partition("+")
            group.create_task(listen_to(dialect, address))
    for dialect, frames in told.items():
        assert '"error"' in frames[-1], f"{dialect}: {frames}"
        for local in (str(tmp_path), sys.executable, f"127.0.0.1:{CLOSED}", ".py"):
            assert local not in "".join(frames), dialect
