"""The base of fake backends that speak lines of JSON on a Unix socket: serving, sending, closing and waiting."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from tests.awaited import Awaited


class FakeLineServer(Awaited):
    """A server of lines of JSON at a Unix socket. A subclass answers in `serve`, and notes each change."""

    def __init__(self) -> None:
        super().__init__()
        self.connections = 0
        self.writer: asyncio.StreamWriter

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
