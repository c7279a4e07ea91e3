"""The base of clients and fakes on real sockets, for whose next message a test waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Awaited:
    """An object that notes each message it receives; tests wait until something holds for them."""

    deadline = 20.0  # seconds for anything that a test waits for

    def __init__(self) -> None:
        self._noted = asyncio.Event()

    def note(self) -> None:
        """Wake whoever waits in `news` or `until`."""
        self._noted.set()

    async def news(self) -> None:
        """Wait for the next `note`."""
        self._noted.clear()
        await self._noted.wait()

    async def until(self, holds: Callable[..., object]) -> None:
        """Wait until `holds()` is true; it has no argument without a default."""
        async with asyncio.timeout(self.deadline):
            while not holds():
                await self.news()
