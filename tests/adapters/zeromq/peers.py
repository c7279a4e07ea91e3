"""Peers over plain pyzmq, which block in their own threads, and a primary of ours for them."""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from stat import S_ISSOCK

import zmq

from dragoman.adapters.base import Transport, TransportLimits
from dragoman.adapters.zeromq.callers import Caller
from dragoman.adapters.zeromq.client import DialledSockets, connect
from dragoman.adapters.zeromq.curve import CurveServer
from dragoman.adapters.zeromq.publication import Publication
from dragoman.adapters.zeromq.server import ZeroMQListener, listen
from dragoman.adapters.zeromq.sockets import PrimaryEvents, ZeroMQLimits, tcp_address
from dragoman.mappings.dialect import Loss
from tests.awaited import until

DEADLINE = 20.0  # what should happen at once happens far below
PATIENCE = 10_000  # ms that a peer waits for what must come
LIMITS = TransportLimits(close_deadline=1.0)
BOUNDS = ZeroMQLimits()
SO_ATTACH_FILTER = 26  # socket(7), for Linux
DROP = struct.pack("HBBI", 6, 0, 0, 0)  # a filter of one instruction: BPF_RET, with 0 bytes of the packet


async def send_forever(caller: Caller) -> None:
    """Send answers until the caller is closed, which raises an error."""
    while True:
        await caller.send([b"anybody?"])
        await asyncio.sleep(0)


class Primary:
    """Our listener with its publication, its callers, and the losses that it reported."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.accepted: asyncio.Queue[Caller] = asyncio.Queue()
        self.callers: list[Caller] = []
        self.losses: list[Loss] = []
        self.topics: set[bytes] = set()  # the prefixes that have a subscriber
        self.subscriptions = 0
        self.publication: Publication
        self.listener: ZeroMQListener

    def accept(self, transport: Transport) -> None:
        if isinstance(transport, Publication):
            self.publication = transport
        elif isinstance(transport, Caller):
            self.callers.append(transport)
            self.accepted.put_nowait(transport)

    def subscribed(self) -> None:
        self.subscriptions += 1

    @property
    def lost(self) -> int:
        """The number of publications that were reported as lost."""
        return sum(loss.count for loss in self.losses if loss.kind == "publication")

    @property
    def publications(self) -> str:
        return tcp_address(self.host, self.listener.publish_port)

    @property
    def calls(self) -> str:
        return tcp_address(self.host, self.listener.call_port)

    async def dial(self, limits: TransportLimits = LIMITS) -> DialledSockets:
        return await connect(self.publications, self.calls, limits)

    async def close(self) -> None:
        await self.listener.close()
        for caller in self.callers:
            await caller.close()
        await self.publication.close()


@asynccontextmanager
async def primary(
    limits: TransportLimits = LIMITS,
    bounds: ZeroMQLimits = BOUNDS,
    port: int = 0,
    call_port: int | None = None,
    curve: CurveServer | None = None,
    host: str = "127.0.0.1",
) -> AsyncIterator[Primary]:
    async with asyncio.timeout(DEADLINE):
        ours = Primary(host)
        ours.listener = await listen(
            host,
            port,
            call_port,
            limits,
            PrimaryEvents(accept=ours.accept, lost=ours.losses.append, subscribed=ours.subscribed, topics=ours.topics),
            bounds,
            curve,
        )
        try:
            yield ours
        finally:
            await ours.close()


@asynccontextmanager
async def dialled(ours: Primary, limits: TransportLimits = LIMITS) -> AsyncIterator[DialledSockets]:
    """Connect our own client; return when the primary has received its subscription."""
    before = ours.subscriptions
    client = await ours.dial(limits)
    try:
        await until(lambda: ours.subscriptions > before)
        yield client
    finally:
        await client.close()


@contextmanager
def peer(kind: zmq.SocketType, address: str = "", /, **options: int | bytes) -> Iterator[zmq.Socket[bytes]]:
    """Open a plain socket with its own context, connected to `address` if one is given."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(kind)
    socket.setsockopt(zmq.RCVTIMEO, PATIENCE)
    socket.setsockopt(zmq.SNDTIMEO, PATIENCE)
    for name, value in options.items():
        socket.setsockopt(getattr(zmq, name), value)
    if address:
        socket.connect(address)
    try:
        yield socket
    finally:
        socket.close(linger=0)
        context.term()


def bound(socket: zmq.Socket[bytes]) -> str:
    """Bind to a port that the OS chooses."""
    return f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}"


def local_connections(port: int) -> Iterator[socket.socket]:
    """Yield each established TCP connection of this process whose own port is this one."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # it is not connected, or that of the listing
            if S_ISSOCK(os.stat(int(name)).st_mode):  # else `fromfd` leaves a copy of it open
                with socket.fromfd(int(name), socket.AF_INET, socket.SOCK_STREAM) as connection:
                    if connection.getsockname()[1:2] == (port,) and connection.getpeername():
                        yield connection


def make_deaf(connection: socket.socket) -> None:
    """Drop every packet that arrives at a connection, also confirmations and the end: like a lost network."""
    instructions = ctypes.create_string_buffer(DROP)
    connection.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HL", 1, ctypes.addressof(instructions)))
