"""A proxy between two peers that injects one fault at a time into the bytes that pass.

It knows no dialect and no framing: a WebSocket, lines and ZMTP are bytes to it. A pando has two ports, and so has its
proxy; the armed fault strikes the connection whose bytes reach it first.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.chaos.faults import Fault, FaultKind, Way

PIECE = 1 << 16
DELAY = 0.02  # seconds for each of `DELAYED` reads
DELAYED = 10
STALL = 0.3  # seconds
SINGLE_BYTES = 400  # bytes that arrive one by one

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Dial = Callable[[], Awaitable[Streams]]


class FaultProxy:
    """A proxy in front of one address. `struck` counts the injected faults, `connections` has the open connections."""

    def __init__(self) -> None:
        self.address = ""
        self.struck = 0
        self.connections = 0
        self.broke = asyncio.Event()  # a fault ended a connection
        self._fault: Fault | None = None
        self._passed = 0  # bytes in the direction of the armed fault
        self._slow: dict[Way, tuple[FaultKind, int]] = {}  # the fault that continues, and how much longer
        self._open: set[asyncio.StreamWriter] = set()
        self._near: set[asyncio.StreamWriter] = set()  # toward the peers that connected to the proxy

    @classmethod
    @asynccontextmanager
    async def in_front_of(cls, address: str, folder: Path) -> AsyncIterator[FaultProxy]:
        """Serve a proxy for `unix:PATH`, `ws://HOST:PORT/...` or a pando's `tcp://HOST:PORT` with its two ports."""
        proxy = cls()
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            if address.startswith("unix:"):
                path = folder / "proxy"
                target = address.removeprefix("unix:")
                accept = proxy._acceptor(group, lambda: asyncio.open_unix_connection(target))
                await stack.enter_async_context(await asyncio.start_unix_server(accept, path))
                proxy.address = f"unix:{path}"
            else:
                scheme, _, rest = address.partition("://")
                host, _, port = rest.partition("/")[0].partition(":")
                wanted = [int(port)] if scheme == "ws" else [int(port), int(port) + 1]
                ports = [await proxy._listen(group, stack, host, each) for each in wanted]
                tail = f"/{rest.partition('/')[2]}" if scheme == "ws" else f"?rpc={ports[-1]}"
                proxy.address = f"{scheme}://{host}:{ports[0]}{tail}"
            try:
                yield proxy
            finally:
                proxy.cut_all()

    async def _listen(self, group: asyncio.TaskGroup, stack: AsyncExitStack, host: str, port: int) -> int:
        accept = self._acceptor(group, lambda: asyncio.open_connection(host, port))
        server = await stack.enter_async_context(await asyncio.start_server(accept, host, 0))
        return int(server.sockets[0].getsockname()[1])

    def arm(self, fault: Fault) -> None:
        """Inject this fault once; it replaces an armed fault that was not injected yet."""
        self._fault, self._passed = fault, 0

    def calm(self) -> None:
        """Inject no further fault."""
        self._fault = None
        self._slow.clear()

    def inject(self, data: bytes) -> None:
        """Send these bytes on every connection, as if they came from the far side."""
        for writer in self._near:
            writer.write(data)

    def cut_all(self) -> None:
        """Reset every connection."""
        for writer in list(self._open):
            writer.transport.abort()

    def _acceptor(
        self, group: asyncio.TaskGroup, dial: Dial
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            group.create_task(self._carry((reader, writer), dial), name="proxied connection")

        return accept

    async def _carry(self, near: Streams, dial: Dial) -> None:
        try:
            far = await dial()
        except OSError:
            near[1].transport.abort()
            return
        writers = (near[1], far[1])
        self._open.update(writers)
        self._near.add(near[1])
        self.connections += 1
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(near[0], far[1], near[1], "up"), name="up")
                group.create_task(self._pump(far[0], near[1], far[1], "down"), name="down")
        finally:
            self.connections -= 1
            self._open.difference_update(writers)
            self._near.discard(near[1])
            for writer in writers:
                writer.close()
            for writer in writers:
                with contextlib.suppress(OSError):
                    await writer.wait_closed()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, back: asyncio.StreamWriter, way: Way
    ) -> None:
        """Pass bytes until one side ends; a reset of one side resets the other."""
        try:
            while data := await reader.read(PIECE):
                await self._pass(data, writer, back, way)
            if writer.can_write_eof():
                writer.write_eof()
        except OSError:
            writer.transport.abort()
            back.transport.abort()

    async def _pass(self, data: bytes, writer: asyncio.StreamWriter, back: asyncio.StreamWriter, way: Way) -> None:
        fault = self._due(data, way)
        match fault and fault.kind:
            case FaultKind.CUT:
                self.broke.set()
                raise ConnectionResetError("the proxy cuts")
            case FaultKind.TRUNCATE:
                self.broke.set()
                writer.write(data[: len(data) // 2])
                await writer.drain()
                writer.close()
                back.close()
                return
            case FaultKind.DUPLICATE:
                data += data
            case FaultKind.STALL:
                await asyncio.sleep(STALL)
            case FaultKind.DELAY:
                self._slow[way] = (FaultKind.DELAY, DELAYED)
            case FaultKind.ONE_BYTE:
                self._slow[way] = (FaultKind.ONE_BYTE, SINGLE_BYTES)
            case _:
                pass
        await self._write(await self._slowly(data, writer, way), writer)

    def _due(self, data: bytes, way: Way) -> Fault | None:
        """Return the armed fault if it strikes in these bytes."""
        fault = self._fault
        if fault is None or fault.way != way:
            return None
        self._passed += len(data)
        if self._passed <= fault.after:
            return None
        self._fault = None
        self.struck += 1
        return fault

    async def _slowly(self, data: bytes, writer: asyncio.StreamWriter, way: Way) -> bytes:
        """Delay these bytes, or write some of them one by one; return the bytes that are not written yet."""
        kind, left = self._slow.get(way, (None, 0))
        if not left:
            return data
        if kind is FaultKind.DELAY:
            self._slow[way] = (FaultKind.DELAY, left - 1)
            await asyncio.sleep(DELAY)
            return data
        for at in range(min(left, len(data))):
            await self._write(data[at : at + 1], writer)
            await asyncio.sleep(0)
        self._slow[way] = (FaultKind.ONE_BYTE, max(0, left - len(data)))
        return data[left:]

    @staticmethod
    async def _write(data: bytes, writer: asyncio.StreamWriter) -> None:
        if data:
            writer.write(data)
            await writer.drain()
