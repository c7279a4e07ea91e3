"""Waiting: the base of clients and fakes on real sockets, for whose next message a test waits, and polling; also
programs that end with their test.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

DEADLINE = 20.0  # seconds for anything that a test waits for
PAUSE = 0.002  # seconds between two looks at what sets no event


async def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition that sets no event, such as a count of the gateway or a file of /proc."""
    async with asyncio.timeout(DEADLINE):
        while not holds():  # noqa: ASYNC110  # nobody sets an event for it
            await asyncio.sleep(PAUSE)


async def comes_true(condition: Callable[[], Awaitable[bool]], deadline: float, every: float) -> bool:
    """Poll a condition in another process, or of a peer that must be asked; return False at the deadline."""
    try:
        async with asyncio.timeout(deadline):
            while not await condition():  # noqa: ASYNC110  # what is asked about sets no event here
                await asyncio.sleep(every)
    except TimeoutError:
        return False
    return True


@asynccontextmanager
async def spawned(*command: str, **options: Any) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a program; kill it at the end of the block if it still runs."""
    process = await asyncio.create_subprocess_exec(*command, **options)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


class Awaited:
    """An object that notes each message it receives; tests wait until something holds for them."""

    deadline = DEADLINE

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
