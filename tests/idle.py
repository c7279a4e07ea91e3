"""Waiting until the event loop is idle.

asyncio's own loop shows its ready callbacks and its timers, so idle is known exactly: two turns in a row in which
nothing but the caller ran and no timer was due. The first turn proves that no callback is left. The second one polls
the sockets after all of them. uvloop shows neither, so on uvloop `settle` runs a fixed number of turns.
"""

from __future__ import annotations

import asyncio
from collections import deque

QUIET = 2  # turns in a row: the second polls the sockets that the last callbacks wrote to
BUSY = 10_000  # turns after which the tasks are said to spin; the longest honest wait of the suite takes a few hundred
BOUNDED = 40  # turns where idle cannot be known: more than any message takes through a gateway in memory


async def settle() -> None:
    """Run every task until all of them wait; raise AssertionError if they never do."""
    loop = asyncio.get_running_loop()
    ready: deque[asyncio.Handle] | None = getattr(loop, "_ready", None)
    if ready is None:
        await run_turns()
        return
    quiet = 0
    for _ in range(BUSY):
        await asyncio.sleep(0)
        quiet = 0 if ready or _timer_due(loop) else quiet + 1
        if quiet == QUIET:
            return
    raise AssertionError(f"the event loop is still busy after {BUSY} turns: {list(ready)}")


async def run_turns(turns: int = BOUNDED) -> None:
    """Run the event loop for this many turns: for uvloop, and for a gateway that reconnects without any pause."""
    for _ in range(turns):
        await asyncio.sleep(0)


def _timer_due(loop: asyncio.AbstractEventLoop) -> bool:
    """Return True if the next turn of the loop would run a timer."""
    timers: list[asyncio.TimerHandle] = getattr(loop, "_scheduled", [])
    end = loop.time() + getattr(loop, "_clock_resolution", 0.0)
    return any(timer.when() < end and not timer.cancelled() for timer in timers)
