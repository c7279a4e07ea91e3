"""Run coroutines in the event loop of the gateway, from the thread of the ops port."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

ANSWER_DEADLINE = 4.0  # seconds for the gateway's loop to answer: below the 5 s and more of most scrapers
SLICE = 250  # sessions, links or rows that are read in one step of the gateway's loop: at most 3 ms


async def take_slices(items: Sequence[T], size: int = SLICE) -> AsyncIterator[Sequence[T]]:
    """Yield the items in slices, and serve the gateway's peers between two of them."""
    for start in range(0, len(items), size):
        if start:
            await asyncio.sleep(0)
        yield items[start : start + size]


class GatewayLoop:
    """The event loop in which this object is made, and its thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()

    def call_soon(self, function: Callable[[str], None], argument: str) -> None:
        """Call a function in the gateway's loop, unless that is closed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, argument)

    async def ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`, which runs in the gateway's loop; raise TimeoutError if it takes too long."""
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError as error:  # that loop is closed
            work.close()
            raise TimeoutError from error
        async with asyncio.timeout(ANSWER_DEADLINE):
            return await asyncio.wrap_future(future)
