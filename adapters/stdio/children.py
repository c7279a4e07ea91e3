"""The child processes of one gateway: bounded in number, and all of them end with the gateway.

    async with Children(most=10) as children:
        transport = await children.spawn(["codewhale", "app-server", "--stdio"], limits, ChildSettings(env=env))

Children are spawned only here. Leaving the block ends all of them. If the process exits without leaving the block
(`sys.exit` in a signal handler), an `atexit` hook kills them. If the process is killed, its watchdog ends them.
"""

from __future__ import annotations

import asyncio
import atexit
import errno
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from dragoman.adapters.base import TransportLimits
from dragoman.adapters.stdio.child import ChildTransport
from dragoman.adapters.stdio.process import ChildLimits
from dragoman.adapters.stdio.settings import ChildSettings
from dragoman.adapters.stdio.watchdog import Watchdog

DEFAULTS = ChildLimits()


class Children:
    """The running children, at most `most`. A child is counted until its whole process group has ended."""

    def __init__(self, most: int, bounds: ChildLimits = DEFAULTS) -> None:
        self.most = most
        self._bounds = bounds
        self._live: set[ChildTransport] = set()
        self._ending = False
        self._watchdog = Watchdog()

    def change_most(self, most: int) -> None:
        """Allow another number of children; those that run stay."""
        self.most = most

    def __len__(self) -> int:
        return len(self._live)

    async def spawn(
        self, argv: Sequence[str], limits: TransportLimits, settings: ChildSettings, *, cwd: str | None = None
    ) -> ChildTransport:
        """Start a child; raise OSError with the reason, EBUSY if the limit is reached."""
        if self._ending:
            raise OSError(errno.EBUSY, "busy: the gateway is stopping and starts no more children", *argv[:1])
        if len(self) >= self.most:
            raise OSError(errno.EBUSY, f"busy: {self.most} children are running, which is the limit", *argv[:1])
        self._watchdog.start()
        child = ChildTransport(
            argv, limits, self._bounds, settings=settings, cwd=cwd, over=self._live.discard, watchdog=self._watchdog
        )
        self._live.add(child)
        try:
            await child.wait_started()
        except BaseException:
            child.kill()
            await child.close()
            raise
        return child

    async def close(self) -> None:
        """End all children at the same time and refuse new ones. Takes no longer than the deadlines of one child."""
        self._ending = True
        try:
            async with asyncio.TaskGroup() as group:
                for child in self._live:
                    group.create_task(child.close(), name=f"{child.peer}:close")
        finally:
            self.kill()
            self._watchdog.close()

    def kill(self) -> None:
        """Send SIGKILL to the groups of all children, without an event loop."""
        for child in self._live:
            child.kill()

    async def __aenter__(self) -> Self:
        atexit.register(self.kill)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        finally:
            atexit.unregister(self.kill)
