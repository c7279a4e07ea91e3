"""The recordings of a gateway, which a reload can replace.

A router keeps the recorder that it was made with. So the former recordings stay open until all routers that record
there have stopped. Without a configuration of recordings, the modules that record are not imported.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from dragoman.gateway.config.model import Recording
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.overload.memory import MemoryBudget

if TYPE_CHECKING:
    from dragoman.gateway.recording.recorder import Recorder, Recordings


class RecordingsInForce:
    """The recordings that new routers use, and former ones. Raise ConfigError if the path cannot be used."""

    def __init__(self, wanted: Recording | None, ledger: Ledger, memory: MemoryBudget) -> None:
        self._wanted = wanted
        self._ledger = ledger
        self._memory = memory
        self._former: list[Recordings] = []
        self._open = self._opener(wanted)
        self.current: Recordings | None = None

    def open(self) -> None:
        """Start to record. Call this in the running event loop."""
        self.current = self._open()

    @asynccontextmanager
    async def replaced(self, wanted: Recording | None) -> AsyncIterator[bool]:
        """Record what begins from now on as `wanted` says, but as before if the block raises an error.

        The value is True if `wanted` differs from the former options. Raise ConfigError if its path cannot be used.
        """
        if wanted == self._wanted:
            yield False
            return
        former, self.current = self.current, self._opener(wanted)()
        try:
            yield True
        except BaseException:
            failed, self.current = self.current, former
            if failed is not None:
                await failed.close()
            raise
        self._wanted = wanted
        if former is not None:
            self._former.append(former)
            await self._close_unused()

    async def release(self, recorder: Recorder | None) -> None:
        """Close the recorder of a router that has stopped."""
        for recordings in (self.current, *self._former):
            if recorder is not None and recordings is not None and recorder in recordings.recorders:
                recordings.recorders.remove(recorder)
                recorder.close()
        await self._close_unused()

    async def close(self) -> None:
        """Write everything that was recorded, and stop."""
        for recordings in (*self._former, self.current):
            if recordings is not None:
                await recordings.close()

    async def _close_unused(self) -> None:
        for recordings in [one for one in self._former if not one.recorders]:
            self._former.remove(recordings)
            await recordings.close()

    def _opener(self, wanted: Recording | None) -> Callable[[], Recordings | None]:
        if wanted is None:
            return lambda: None
        from dragoman.gateway.recording.recordings import recordings_opener

        return recordings_opener(wanted, self._ledger, self._memory)
