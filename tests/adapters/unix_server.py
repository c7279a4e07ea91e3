"""A listener at a Unix socket whose connections the test holds, and clients of it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from dragoman.adapters.base import Listener, Transport, TransportLimits
from dragoman.adapters.unix import UnixTransport, connect, listen

DEADLINE = 20.0  # what should happen at once happens far below
LIMITS = TransportLimits(close_deadline=1.0)


class Server:
    """A listener, and the transports that it has accepted."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.accepted: asyncio.Queue[Transport] = asyncio.Queue()
        self.transports: list[Transport] = []
        self.listener: Listener

    def accept(self, transport: Transport) -> None:
        self.transports.append(transport)
        self.accepted.put_nowait(transport)

    async def next(self) -> UnixTransport:
        transport = await self.accepted.get()
        assert isinstance(transport, UnixTransport)
        return transport


@asynccontextmanager
async def serving(
    folder: Path, limits: TransportLimits = LIMITS, accept: Callable[[Transport], None] | None = None
) -> AsyncIterator[Server]:
    """Run a listener; close its transports at the end within the deadline, and check that no task is left."""
    before = asyncio.all_tasks()
    async with asyncio.timeout(DEADLINE):
        server = Server(str(folder / "sock"))
        server.listener = await listen(server.path, limits, accept or server.accept)
        try:
            yield server
        finally:
            await server.listener.close()
            for transport in server.transports:
                await transport.close()
        if left := asyncio.all_tasks() - before:  # asyncio's own task that accepts; it ends by itself
            await asyncio.wait(left)


@asynccontextmanager
async def dialled(
    server: Server, limits: TransportLimits = LIMITS
) -> AsyncIterator[tuple[UnixTransport, UnixTransport]]:
    """Connect; return our client's transport and the accepted one."""
    client = await connect(server.path, limits)
    try:
        yield client, await server.next()
    finally:
        await client.close()


def raw(path: str) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(path)
    return peer
