"""G7: from a child's stdout to a WebSocket, ours with translation against websocketd without.

The same child behind each bridge: asked for N events it writes pod text deltas at full speed, one line a write or 32.
websocketd copies each line into a frame. Ours is the transport of adapters.stdio, the translation (`Live` of
ours.py) and the WebSocket transport; the gateway's outbox and router are not in it. The third is what one writes by
hand: asyncio's subprocess, `readline`, aiohttp's `send_str`, no JSON.

Each bridge is a process of its own, its child on the same core, the client on the other; every turn is checked whole.
websocketd is taken from PATH or $WEBSOCKETD (Debian: `apt install websocketd`); without it only the pump is compared.

    python -m tests.bench.stdio [ROUNDS]
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import msgspec
import uvloop
from aiohttp import WSMsgType, web
from msgspec import Struct

from dragoman.adapters.base import Transport, TransportLimits
from dragoman.adapters.stdio import Children, ChildSettings
from dragoman.adapters.websocket import listen
from tests.adapters.websocket.peers import everybody
from tests.bench.naive_bridge import LINE_LIMIT
from tests.bench.ours import Live
from tests.bench.pod_turn import LINES, answer, turn
from tests.bench.processes import Process, cores, pin
from tests.transport_reader import receive

TEXT = 0x1
READ_SIZE = 1 << 20
PATIENCE = 120.0  # seconds without a byte after which the bridge counts as broken
OURS, PUMP, WEBSOCKETD = "dragoman", "asyncio pump", "websocketd"
TURN = 50_000  # events; below the megabyte that smooth clients read of one terminal
TURNS = {OURS: 8, PUMP: 2, WEBSOCKETD: 2}  # so that each sample lasts about as long
ROUNDS = 7
START = 10.0  # seconds until websocketd must listen
TERMINAL = b"eventual_response"
LAST = b'"status":"idle"'  # the pod's own terminal

CONTINUED, FINAL = 0x0, 0x80

MODULE = "tests.bench.stdio"
encode = msgspec.json.Encoder().encode


class Reader:
    """A client that asks a child for events, over a WebSocket on a blocking socket.

    While the clock runs it only takes bytes from the kernel. It decodes and checks every frame once the clock has
    stopped. So this end costs next to nothing, and yet everything that arrives is checked.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 80))
        self._socket.settimeout(PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._handshake(parts.netloc, parts.path)

    def ask(self, count: int, bridge: str) -> float:
        """Seconds from the question until the last event begins to arrive; all of them are checked after that."""
        started = time.perf_counter()
        self._send({"count": count})
        last = TERMINAL if bridge == OURS else LAST
        chunks, carried, found = [], b"", False
        while not found:
            chunk = self._receive()
            chunks.append(chunk)
            found = last in chunk or last in carried + chunk[: len(last)]
            carried = chunk[-len(last) :]
        seconds = time.perf_counter() - started
        text = [_text(msgspec.json.decode(payload)) for payload in _messages(self._whole(b"".join(chunks)))]
        assert "".join(text) == answer(count), f"{bridge} lost or reordered something"
        return seconds

    def close(self) -> None:
        self._socket.close()

    def _handshake(self, host: str, path: str) -> None:
        key = b64encode(os.urandom(16)).decode()
        self._socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self._socket.recv(1)  # byte by byte: what follows the head belongs to the first frame
        assert head.startswith(b"HTTP/1.1 101 "), head

    def _send(self, action: dict[str, Any]) -> None:
        payload = msgspec.json.encode(action)
        size, mask = len(payload), os.urandom(4)
        head = bytes((0x80 | TEXT, 0x80 | 126)) + size.to_bytes(2)  # no action of ours is longer
        self._socket.sendall(head + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload)))

    def _receive(self) -> bytes:
        chunk = self._socket.recv(READ_SIZE)
        assert chunk, "the bridge closed the connection"
        return chunk

    def _whole(self, received: bytes) -> bytes:
        """`received` up to the end of a frame, with what is still missing of it."""
        at = 0
        while at < len(received):
            while not headed(received, at):
                received += self._receive()
            at = frame(received, at)[2]
            while len(received) < at:
                received += self._receive()
        return received


def frame(received: bytes, at: int) -> tuple[int, int, int]:
    """Opcode, start and end of the payload of the frame at `at`; of a masked one the mask stands first in it."""
    size, start = received[at + 1] & 0x7F, at + 2
    mask = 4 if received[at + 1] & 0x80 else 0
    if size == 126:
        size, start = int.from_bytes(received[at + 2 : at + 4]), at + 4
    elif size == 127:
        size, start = int.from_bytes(received[at + 2 : at + 10]), at + 10
    return received[at] & 0x0F, start, start + mask + size


def headed(received: bytes, at: int) -> bool:
    """Return True if the header of the frame at `at` is complete."""
    have = len(received) - at
    return have >= 2 and have >= {126: 4, 127: 10}.get(received[at + 1] & 0x7F, 2)


class Sample(Struct, frozen=True, kw_only=True):
    """The result of a bridge in a round, with `lines` in each write of its child."""

    bridge: str
    lines: int
    events: int
    seconds: float

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / self.seconds


def websocketd() -> str | None:
    """Return the path of the program, or None."""
    return os.environ.get("WEBSOCKETD") or shutil.which("websocketd")


def measure(rounds: int) -> list[list[Sample]]:
    """The samples of each round: every bridge at one line a write, then at LINES."""
    pair = cores()
    if pair is not None:
        pin(pair[0])
    bridges = [PUMP, OURS] + ([WEBSOCKETD] if websocketd() else [])
    taken = []
    for number in range(rounds):
        print(f"stdio: round {number + 1} of {rounds} ...", file=sys.stderr, flush=True)
        order = bridges[:: 1 if number % 2 else -1]
        taken.append([_sample(bridge, lines, pair) for lines in (1, LINES) for bridge in order])
    return taken


def ratio(samples: Sequence[Sample], peer: str, lines: int) -> float:
    """Return our speed as a multiple of that of this peer, in one round."""
    rates = {sample.bridge: sample.rate for sample in samples if sample.lines == lines}
    return rates[OURS] / rates[peer]


def _sample(bridge: str, lines: int, pair: tuple[int, int] | None) -> Sample:
    core = pair[1] if pair else None
    with _running(bridge, lines, core) as url:
        client = Reader(url)
        client.ask(TURN, bridge)  # to warm up
        seconds = sum(client.ask(TURN, bridge) for _ in range(TURNS[bridge]))
        client.close()
    return Sample(bridge=bridge, lines=lines, events=TURNS[bridge] * TURN, seconds=seconds)


@contextmanager
def _running(bridge: str, lines: int, core: int | None) -> Iterator[str]:
    if bridge != WEBSOCKETD:
        with Process(MODULE, bridge, str(lines), core=core) as process:
            yield process.endpoint
        return
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    argv = [websocketd() or "", f"--port={port}", "--address=127.0.0.1", "--loglevel=fatal", *_child(lines)]
    with _spawned_on(core, argv) as process:
        try:
            _await(port)
            yield f"ws://127.0.0.1:{port}/"
        finally:
            process.terminate()


def _spawned_on(core: int | None, argv: list[str]) -> subprocess.Popen[bytes]:
    """Go has threads before one could pin them, so it inherits its core."""
    if core is None:
        return subprocess.Popen(argv)
    own = os.sched_getaffinity(0)
    pin(core)
    try:
        return subprocess.Popen(argv)
    finally:
        os.sched_setaffinity(0, own)


def _await(port: int) -> None:
    deadline = time.monotonic() + START
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            assert time.monotonic() < deadline, "websocketd does not listen"
            time.sleep(0.02)
        else:
            return


def _messages(received: bytes) -> Iterator[bytes]:
    """The text messages in `received`; websocketd sends a long one in pieces."""
    at, pieces = 0, []
    while at < len(received):
        opcode, start, end = frame(received, at)
        if opcode in (TEXT, CONTINUED):
            pieces.append(received[start:end])
            if received[at] & FINAL:
                yield b"".join(pieces)
                pieces = []
        at = end


def _text(event: dict[str, object]) -> str:
    match event:
        case {"type": "stream_token", "token": str(token)}:
            return token
        case {"event": "text_delta", "data": {"text": str(token)}}:
            return token
    return ""


# -- what runs as a process ----------------------------------------------------------------------------


def _child(lines: int) -> list[str]:
    return [sys.executable, "-m", MODULE, "child", str(lines)]


def child(lines: int) -> None:
    """For each line with a number, so many events: made the first time, so that later it only writes."""
    made: dict[int, list[bytes]] = {}
    for asked in sys.stdin.buffer:
        count = msgspec.json.decode(asked)["count"]
        if count not in made:
            blocks = turn(count)
            made[count] = list(blocks if lines == LINES else (b for block in blocks for b in block.splitlines(True)))
        for block in made[count]:
            _write(block)


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


async def ours(lines: int) -> None:
    """Our transports with the live translation between them; one client."""
    accepted: asyncio.Queue[Transport] = asyncio.Queue()
    listener = await listen("127.0.0.1", 0, "/", TransportLimits(), everybody(accepted.put_nowait))
    _tell(f"{listener.address}")
    client = await accepted.get()
    async with Children(1) as children, asyncio.TaskGroup() as group:
        spawned = await children.spawn(_child(lines), TransportLimits(), ChildSettings(env=os.environ))
        translating = group.create_task(_translated(spawned, client), name="translate")
        while frames := await receive(client):
            await spawned.send([frame for frame in frames if isinstance(frame, bytes)])
        translating.cancel()
    await client.close()
    await listener.close()


async def _translated(source: Transport, target: Transport) -> None:
    live = Live()
    while frames := await receive(source):
        pieces = [frame for frame in frames if isinstance(frame, bytes)]
        written = live.translate(pieces, time.time_ns() // 1_000_000)
        if written:
            await target.send(written)


async def pump(lines: int) -> None:
    """Measure the hand-written counterpart: one client of one child."""

    async def handle(request: web.Request) -> web.WebSocketResponse:
        client = web.WebSocketResponse()
        await client.prepare(request)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*_child(lines), stdin=pipe, stdout=pipe, limit=LINE_LIMIT)
        assert process.stdin is not None
        assert process.stdout is not None
        async with asyncio.TaskGroup() as group:
            copying = group.create_task(_copied(process.stdout, client), name="copy")
            async for message in client:
                if message.type is WSMsgType.TEXT:
                    process.stdin.write(message.data.encode() + b"\n")
                    await process.stdin.drain()
            copying.cancel()
        process.kill()
        await process.wait()
        return client

    app = web.Application()
    app.router.add_get("/", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    _tell(f"ws://127.0.0.1:{runner.addresses[0][1]}/")
    await asyncio.Event().wait()


async def _copied(source: asyncio.StreamReader, target: web.WebSocketResponse) -> None:
    while line := await source.readline():
        await target.send_str(line.rstrip(b"\n").decode())


def _tell(address: str) -> None:
    print(f"listening {address}", file=sys.stderr, flush=True)


def main() -> None:
    match sys.argv[1:]:
        case ["child", lines]:
            child(int(lines))
        case [name, lines] if name == OURS:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(ours(int(lines)))
        case [name, lines] if name == PUMP:
            asyncio.run(pump(int(lines)))
        case rest:
            _show(measure(int(rest[0]) if rest else ROUNDS))


def _show(taken: list[list[Sample]]) -> None:
    bridges = [sample.bridge for sample in taken[0] if sample.lines == 1]
    for lines, goals in ((1, "goal >= 1.5, stretch >= 3"), (LINES, "goal >= 3, stretch >= 6")):
        for bridge in bridges:
            rates = [s.rate for samples in taken for s in samples if (s.bridge, s.lines) == (bridge, lines)]
            print(f"{lines:2} lines a write  {bridge:13} {median(rates) / 1000:7.0f}k events/s")
        for peer in bridges:
            if peer != OURS:
                times = [ratio(samples, peer, lines) for samples in taken]
                goal = f", {goals}" if peer == WEBSOCKETD else ""
                print(
                    f"{lines:2} lines a write  {OURS} / {peer}: {median(times):.1f}x "
                    f"[{min(times):.1f}..{max(times):.1f}]{goal}"
                )


if __name__ == "__main__":
    main()
