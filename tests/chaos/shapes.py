"""The most expensive input for each parser, sent by a malicious client or backend.

A shape is a list of messages of one dialect. Afterwards the gateway must still run, and a new client must complete a
turn.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import aiohttp
import zmq
import zmq.asyncio
from msgspec import Struct, field

from tests.chaos.clients import connected
from tests.chaos.kills import ProcessHarness
from tests.chaos.pair import LIMITS, NO_TURN, FaultyPair
from tests.chaos.processes import Program
from tests.pairs.table import DIALECTS

MIB = 1 << 20
SEND_DEADLINE = 30.0  # seconds for a peer that the gateway does not read any more
READ_DEADLINE = 0.5  # seconds during which the malicious client reads the gateway's answers

SHAPES: dict[str, Callable[[int], list[bytes]]] = {
    "many small values": lambda size: [b"[" + b"0," * (size // 2) + b"0]"],
    "many empty objects": lambda size: [b"[" + b"{}," * (size // 3) + b"{}]"],
    "many keys": lambda size: [b"{" + b",".join(b'"%d":0' % n for n in range(size // 10)) + b"}"],
    "one key many times": lambda size: [b"{" + b",".join([b'"a":0'] * (size // 6)) + b"}"],
    "deep nesting": lambda size: [b"[" * (size // 2) + b"]" * (size // 2)],
    "a text of escapes": lambda size: [b'{"x":"' + b"\\u0000" * (size // 6) + b'"}'],
    "a long number": lambda size: [b'{"x":' + b"9" * size + b"}"],
    "not UTF-8": lambda size: [b'{"x":"' + b"\xff" * size + b'"}'],
    "many messages of one byte": lambda size: [b"x"] * (size // 16),
    "many empty messages": lambda size: [b""] * (size // 16),
    "many unknown messages": lambda size: [b'{"action":"x","method":"x","id":1}'] * (size // 64),
    "a message above max_message": lambda size: [b"x" * (LIMITS.max_message + 1)],
}
"""Name -> messages of about so many bytes."""


class ShapeTally(Struct):
    """The shapes that were sent, and those after which the gateway did not work."""

    played: list[tuple[str, str]] = field(default_factory=list)
    played_by_backends: int = 0
    not_recovered: list[str] = field(default_factory=list)


async def play_shapes(harness: ProcessHarness, innocent: Program, size: int, tally: ShapeTally) -> None:
    """Send every shape to the listener of each dialect."""
    for name, make in SHAPES.items():
        for dialect in DIALECTS:
            innocent.tell(f"{name}, {dialect}")
            await send_shape(dialect, harness.listeners[dialect, "pod"], make(size))
            tally.played.append((name, dialect))
            if not await harness.recovers(dialect, "pod"):
                tally.not_recovered.append(f"{name}, {dialect}")


async def play_backend_shapes(pair: FaultyPair, backend: str, size: int, tally: ShapeTally) -> None:
    """Let a backend send every shape to the gateway, on the connection that a session has."""
    for name, make in SHAPES.items():
        try:
            async with connected(pair.client, pair.address) as client:
                await client.open()
                pair.far.inject(_framed(backend, make(size)))
                await client.ask("tell me")
        except* NO_TURN:
            pass  # the backend is still busy with the shape before
        tally.played_by_backends += 1
        if not await pair.recovers():
            tally.not_recovered.append(f"{name}, sent by a {backend} backend")


async def send_shape(dialect: str, address: str, messages: list[bytes], read: float = READ_DEADLINE) -> None:
    """Connect, send these messages, and read for a moment; give up if the gateway does not read them."""
    with contextlib.suppress(*NO_TURN):
        async with asyncio.timeout(SEND_DEADLINE):
            await _SENDERS.get(dialect, _send_lines)(address, messages, read)


def _framed(dialect: str, messages: list[bytes]) -> bytes:
    """Return messages of a backend as the bytes of its connection."""
    if dialect == "smooth":
        return b"".join(b"\x81\x7f" + len(message).to_bytes(8, "big") + message for message in messages)
    if dialect == "pando":
        frames = [b"llm.token\0" + message for message in messages]
        return b"".join(b"\x02" + len(frame).to_bytes(8, "big") + frame for frame in frames)
    return b"\n".join([*messages, b""])


async def _send_websocket(address: str, messages: list[bytes], read: float) -> None:
    async with aiohttp.ClientSession() as http, http.ws_connect(address, max_msg_size=0) as socket:
        for message in messages:
            await socket.send_frame(message, aiohttp.WSMsgType.TEXT)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(read):
                while not (await socket.receive()).type.name.startswith("CLOS"):
                    pass


async def _send_lines(address: str, messages: list[bytes], read: float) -> None:
    reader, writer = await asyncio.open_unix_connection(address.removeprefix("unix:"))
    try:
        writer.write(b"\n".join([*messages, b""]))
        await writer.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(read):
                while await reader.read(MIB):
                    pass
    finally:
        writer.transport.abort()


async def _send_zeromq(address: str, messages: list[bytes], read: float) -> None:
    url = urlsplit(address)
    assert url.port is not None
    calls = int(parse_qs(url.query).get("rpc", [str(url.port + 1)])[0])
    context = zmq.asyncio.Context()
    try:
        caller = context.socket(zmq.DEALER)
        caller.connect(f"tcp://{url.hostname}:{calls}")
        for message in messages:
            await caller.send_multipart([b"", message])
        await asyncio.sleep(read)
    finally:
        context.destroy(linger=0)


_SENDERS = {"smooth": _send_websocket, "pando": _send_zeromq}
