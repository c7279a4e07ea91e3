"""Run coroutines in the event loop of the gateway, from the thread of the ops port."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import nullcontext, suppress
from typing import Any, TypeVar

T = TypeVar("T")

ANSWER_DEADLINE = 4.0  # seconds for the gateway's loop to answer: below the 5 s and more of most scrapers
SLICE = 250  # sessions, links or rows that are read in one step of the gateway's loop: at most 3 ms


async def take_slices(items: Sequence[T], size: int = SLICE) -> AsyncIterator[Sequence[T]]:
    """Yield the items in slices, and serve the gateway's peers after each of them."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
        await asyncio.sleep(0)


class GatewayLoop:
    """The event loop in which this object is made, and its thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()
        self._turn = asyncio.Lock()  # of the loop that asks

    def call_soon(self, function: Callable[[str], None], argument: str) -> None:
        """Call a function in the gateway's loop, unless that is closed."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, argument)

    async def ask(self, work: Callable[[], Coroutine[Any, Any, T]], *, at_once: bool = False) -> T:
        """Return the result of `work`, which runs in the gateway's loop; raise TimeoutError if it takes too long.

        One request runs at a time: many of them together hold that loop no longer than one slice. A probe is short, and
        asks `at_once`, so that long lists do not delay it.
        """
        async with asyncio.timeout(ANSWER_DEADLINE), nullcontext() if at_once else self._turn:
            coroutine = work()
            try:
                future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
            except RuntimeError as error:  # that loop is closed
                coroutine.close()
                raise TimeoutError from error
            return await asyncio.wrap_future(future)
