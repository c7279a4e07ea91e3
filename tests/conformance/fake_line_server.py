"""The base of fake backends that speak lines of JSON on a Unix socket: serving, sending, closing and waiting."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

DEADLINE = 20.0  # seconds for anything that a test waits for


class FakeLineServer:
    """A server of lines of JSON at a Unix socket. A subclass answers in `serve`, and notes each change."""

    def __init__(self) -> None:
        self.connections = 0
        self.writer: asyncio.StreamWriter
        self._changed = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def serving(cls, path: Path) -> AsyncIterator[Self]:
        fake = cls()
        server = await asyncio.start_unix_server(fake.serve, path, limit=1 << 26)
        try:
            yield fake
        finally:
            server.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it ends."""
        raise NotImplementedError

    async def say(self, *said: dict[str, Any] | bytes) -> None:
        """Send these lines, or raw bytes, to the client of `writer`."""
        for one in said:
            self.writer.write(one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n")
        await self.writer.drain()

    def hang_up(self) -> None:
        """Close the connection."""
        self.writer.close()

    def note(self) -> None:
        """Wake whoever waits in `until`."""
        self._changed.set()

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until something holds."""
        async with asyncio.timeout(DEADLINE):
            while not holds():
                self._changed.clear()
                await self._changed.wait()
