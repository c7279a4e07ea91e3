"""All children of one gateway: no more than so many at a time, and none of them when it has ended.

    async with Children(most=10) as children:
        transport = await children.spawn(["codewhale", "app-server", "--stdio"], limits, env=env)

There is no way to spawn past it. Leaving the block ends them all; a process that ends without leaving it (`sys.exit` in
a signal handler) kills them with its last breath, and for one that is killed its watchdog ends them.
"""

from __future__ import annotations

import asyncio
import atexit
import errno
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from dragoman.adapters.base import Limits
from dragoman.adapters.stdio.child import Bounds, ChildTransport
from dragoman.adapters.stdio.watchdog import Watchdog

__all__ = ["Children"]

DEFAULTS = Bounds()


class Children:
    """The children that live; `most` is their bound, which a child leaves only once its whole group has ended."""

    def __init__(self, most: int, bounds: Bounds = DEFAULTS) -> None:
        self.most = most
        self._bounds = bounds
        self._live: set[ChildTransport] = set()
        self._ending = False
        self._watchdog = Watchdog()

    def __len__(self) -> int:
        return len(self._live)

    async def spawn(
        self, argv: Sequence[str], limits: Limits, *, env: Mapping[str, str], cwd: str | None = None
    ) -> ChildTransport:
        """A child with exactly this environment. OSError says why not, EBUSY that the bound is reached."""
        if self._ending:
            raise OSError(errno.EBUSY, "busy: the gateway ends and spawns nothing more", *argv[:1])
        if len(self) >= self.most:
            raise OSError(errno.EBUSY, f"busy: {self.most} children run, and more are not allowed", *argv[:1])
        self._watchdog.start()
        child = ChildTransport(
            argv, limits, self._bounds, env=env, cwd=cwd, over=self._live.discard, watchdog=self._watchdog
        )
        self._live.add(child)
        try:
            await child.begun()
        except BaseException:
            child.kill()
            await child.close()
            raise
        return child

    async def close(self) -> None:
        """End all of them at once, and spawn no more; over within the deadlines of one."""
        self._ending = True
        try:
            async with asyncio.TaskGroup() as group:
                for child in self._live:
                    group.create_task(child.close(), name=f"{child.peer}:close")
        finally:
            self.kill()
            self._watchdog.close()

    def kill(self) -> None:
        """KILL to all of their groups, without an event loop."""
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
