"""Peers for the tests of both sides: our listener, a bare TCP peer, and functions that drive a transport."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest

from dragoman.adapters.base import (
    Accept,
    Admission,
    CloseReason,
    ConnectionCallbacks,
    PeerFacts,
    Transport,
    TransportLimits,
)
from dragoman.adapters.websocket import HandshakeRules, ServerTls, WebSocketListener, WebSocketTransport, listen
from dragoman.gateway.overload.fair_queue import READ, FairQueue, SlicedWork
from dragoman.mappings.dialect import Frame
from tests.transport_reader import receive

DEADLINE = 20.0  # what should happen at once happens far below
LIMITS = TransportLimits(close_deadline=1.0)
KERNEL = 64 * 1024  # bytes that the kernel may hold for a connection at each end; Linux takes twice as many
FLOOD = 512  # times 4 KiB: several times what the kernel holds
SMALL = TransportLimits(max_message=1000, close_deadline=1.0)


class Server:
    """A listener, and the transports that it has accepted."""

    listener: WebSocketListener

    def __init__(self) -> None:
        self.accepted: asyncio.Queue[WebSocketTransport] = asyncio.Queue()
        self.transports: list[WebSocketTransport] = []

    @property
    def url(self) -> str:
        return self.listener.address

    @property
    def port(self) -> int:
        return int(self.url.split(":")[2].split("/")[0])

    def accept(self, transport: Transport) -> None:
        assert isinstance(transport, WebSocketTransport)
        self.transports.append(transport)
        self.accepted.put_nowait(transport)

    async def next(self) -> WebSocketTransport:
        return await self.accepted.get()


async def refused_later(refusal: str) -> str:
    """Return the refusal in a later step of the event loop, as an authentication does that has to wait."""
    await asyncio.sleep(0)
    return refusal


@asynccontextmanager
async def serving(
    limits: TransportLimits = LIMITS,
    origins: tuple[str, ...] = (),
    hosts: tuple[str, ...] = (),
    tls: ServerTls | None = None,
    connect: Callable[[str], str] = lambda _peer: "",
    disconnect: Callable[[str], None] = lambda _peer: None,
    identify: Callable[[PeerFacts], str] = lambda _facts: "",
    bad_request: Callable[[str], None] = lambda _kind: None,
    wait: Callable[[str], Awaitable[Accept | str]] = refused_later,
    queue: FairQueue | None = None,
) -> AsyncIterator[Server]:
    """Run a listener; close its transports at the end within the deadline.

    `identify` returns why a peer is refused, or nothing. What `wait` returns is then waited for. All connections share
    `queue`, if it is given.
    """

    def admit(facts: PeerFacts) -> Admission:
        refusal = identify(facts)
        return wait(refusal) if refusal else server.accept

    async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
        server = Server()
        callbacks = ConnectionCallbacks(
            admit=admit,
            spawn=lambda work, name: group.create_task(work, name=name),
            work=new_work if queue is None else partial(SlicedWork, queue),
            connect=connect,
            disconnect=disconnect,
            bad_request=bad_request,
        )
        rules = HandshakeRules(callbacks=callbacks, origins=origins, hosts=hosts, tls=tls)
        server.listener = await listen("127.0.0.1", 0, "/ws", limits, rules)
        try:
            yield server
        finally:
            await server.listener.close()
            for transport in server.transports:
                await transport.close()


def everybody(accept: Accept) -> HandshakeRules:
    """Return the rules that accept every client."""
    callbacks = ConnectionCallbacks(admit=lambda _facts: accept, spawn=nothing_spawned, work=new_work)
    return HandshakeRules(callbacks=callbacks)


def new_work(fail: Callable[[Exception], None]) -> SlicedWork:
    """Return the work of a connection that shares the event loop with no other."""
    return SlicedWork(FairQueue(), fail, READ)


def nothing_spawned(work: Coroutine[Any, Any, None], name: str) -> None:
    """Fail: only a TLS handshake, and an authentication that waits, are spawned."""
    work.close()
    raise AssertionError(f"spawned: {name}")


KEY = "dGhlIHNhbXBsZSBub25jZQ=="  # the example of RFC 6455, section 1.3


def request(*headers: str, line: str = "GET /ws HTTP/1.1", version: str = "13") -> bytes:
    """Return the request of a handshake, with these additional headers."""
    usual = ("Host: 127.0.0.1", "Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Key: {KEY}")
    return "\r\n".join((line, *usual, f"Sec-WebSocket-Version: {version}", *headers, "", "")).encode()


class RawPeer:
    """A peer that does only what the test tells it: it sends no pong or close by itself, and reads nothing."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, masks: bool) -> None:
        self.reader = reader
        self.writer = writer
        self.mask = (0x80, bytes(4)) if masks else (0, b"")
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, KERNEL)

    def write(self, *messages: tuple[int, bytes]) -> None:
        """Write messages of (first byte, payload) in one write; a client masks them with zeros."""
        bit, key = self.mask
        self.writer.write(b"".join(bytes((first, bit | len(data))) + key + data for first, data in messages))

    async def until(self, end: bytes) -> None:
        data = b""
        while not data.endswith(end):
            more = await self.reader.read(1 << 20)
            assert more, "the other end is gone"
            data = data[-len(end) :] + more

    async def until_end(self) -> bytes:
        data = b""
        with suppress(ConnectionError):
            while more := await self.reader.read(1 << 20):
                data += more
        return data


async def some(transport: Transport, count: int) -> list[Frame]:
    frames: list[Frame] = []
    while len(frames) < count:
        received = await receive(transport)
        assert received, f"the peer is gone after {len(frames)} frames"
        frames += received
    return frames


async def refused(sending: Coroutine[None, None, None]) -> None:
    with pytest.raises(ConnectionError):
        await sending


def batches(frames: Sequence[bytes], size: int) -> Iterable[Sequence[bytes]]:
    return (frames[start : start + size] for start in range(0, len(frames), size))


async def send_all(transport: Transport, frames: Sequence[bytes]) -> None:
    for batch in batches(frames, 256):
        await transport.send(batch)


async def flood(transport: WebSocketTransport) -> None:
    """Send more than the kernel holds, 4 KiB at a time."""
    transport._tcp.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL)
    for _ in range(FLOOD):
        await transport.send([b"x" * 1024] * 4)


async def stalled(transport: WebSocketTransport, high: int) -> None:
    """Wait until the kernel takes no more bytes."""
    while transport._tcp.get_write_buffer_size() <= high:  # noqa: ASYNC110  # nobody sets an event for it
        await asyncio.sleep(0)


async def close_when_stalled(transport: WebSocketTransport, high: int) -> None:
    await stalled(transport, high)
    await transport.close(CloseReason.TOO_SLOW)
