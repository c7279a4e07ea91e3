"""Polling of conditions that set no event: in another process, or at a peer that must be asked again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


async def comes_true(condition: Callable[[], Awaitable[bool]], deadline: float, every: float) -> bool:
    """Poll the condition; return False if it is not true before the deadline."""
    try:
        async with asyncio.timeout(deadline):
            while not await condition():  # noqa: ASYNC110  # what is asked about sets no event here
                await asyncio.sleep(every)
    except TimeoutError:
        return False
    return True
