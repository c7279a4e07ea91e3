"""A flag for which tasks can wait, as small as an idle connection needs it.

Each asyncio.Event has a deque, which takes 760 bytes while nobody waits. An idle session has eight such flags.
"""

from __future__ import annotations

import asyncio


class Flag:
    """An asyncio.Event that has a list of waiters only while a task waits."""

    __slots__ = ("_waiters", "is_set")

    def __init__(self) -> None:
        self.is_set = False
        """True if the flag is set: no method, which would be one more call for each token."""
        self._waiters: list[asyncio.Future[None]] | None = None

    def set(self) -> None:
        """Set the flag, and wake all tasks that wait for it."""
        self.is_set = True
        waiters, self._waiters = self._waiters, None
        for waiter in waiters or ():
            if not waiter.done():
                waiter.set_result(None)

    def clear(self) -> None:
        """Clear the flag: `wait` waits again."""
        self.is_set = False

    async def wait(self) -> None:
        """Return once the flag is set."""
        if self.is_set:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._waiters is None:
            self._waiters = []
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            self._forget(waiter)

    def _forget(self, waiter: asyncio.Future[None]) -> None:
        if self._waiters is not None and waiter in self._waiters:  # a cancelled wait: `set` drops the whole list
            self._waiters.remove(waiter)
