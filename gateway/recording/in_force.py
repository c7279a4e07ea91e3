"""The recordings of a gateway, which a reload can replace.

A router keeps the recorder that it was made with. So the former recordings stay open until all recorders that write
there are released. Without a configuration of recordings, the modules that record are not imported.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from dragoman.gateway.config.model import Config, Recording, Route
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.overload.memory import MemoryBudget
from dragoman.mappings.canonical import SessionState

if TYPE_CHECKING:
    from dragoman.gateway.recording.recorder import Recorder
    from dragoman.gateway.recording.recordings import Recordings
    from dragoman.gateway.recording.redaction.redactor import Redactor


class RecordingsInForce:
    """The recordings that new routers use, and former ones that are still open.

    Raise ConfigError if the path cannot be used.
    """

    def __init__(self, config: Config, ledger: Ledger, memory: MemoryBudget) -> None:
        self._wanted = config.recording
        self._ledger = ledger
        self._memory = memory
        self._recorders: list[Recorder] = []
        self._open = self._opener(config)
        self.current: Recordings | None = None

    def open(self) -> None:
        """Start to record. Call this in the running event loop."""
        self.current = self._open()

    def make_recorder(
        self,
        route: Route,
        find_id: Callable[[str], str],
        public_ids: Callable[[SessionState], list[str]],
    ) -> Recorder | None:
        """Return a recorder for a route, or None if it is not recorded."""
        if self.current is None or not route.record:
            return None
        from dragoman.gateway.recording.recorder import Recorder, header_of

        recorder = Recorder(self.current, header_of(route), find_id=find_id, public_ids=public_ids)
        self._recorders.append(recorder)
        return recorder

    @asynccontextmanager
    async def replaced(self, config: Config) -> AsyncIterator[bool]:
        """Record new sessions as `config` says. If the block raises an exception, restore the former recordings.

        The value is True if its `[recording]` differs from the former one. Raise ConfigError if its path cannot be
        used.
        """
        wanted = config.recording
        if wanted == self._wanted:
            if self.current is None or wanted is None:
                yield False
                return
            redactor = await asyncio.to_thread(_redactors, config, wanted)  # the secrets may have changed
            with self.current.redactor_replaced(redactor):
                yield False
            return
        start = await asyncio.to_thread(self._opener, config)  # it may import 80 ms of modules, and compile patterns
        former, self.current = self.current, start()
        try:
            yield True
        except BaseException:
            failed, self.current = self.current, former
            await self._close(failed)
            raise
        self._wanted = wanted
        await self._close_unused(former)

    async def release(self, recorder: Recorder | None) -> None:
        """Close the recorder of a router that has stopped."""
        if recorder in self._recorders:
            self._recorders.remove(recorder)
            recorder.close()
            await self._close_unused(recorder.recordings)

    async def close(self) -> None:
        """Write everything that was recorded, and stop."""
        for recordings in dict.fromkeys([*(one.recordings for one in self._recorders), self.current]):
            await self._close(recordings)

    async def _close_unused(self, recordings: Recordings | None) -> None:
        """Close former recordings that no recorder uses."""
        if recordings is not self.current and recordings not in [one.recordings for one in self._recorders]:
            await self._close(recordings)

    async def _close(self, recordings: Recordings | None) -> None:
        if recordings is None:
            return
        for recorder in [one for one in self._recorders if one.recordings is recordings]:
            self._recorders.remove(recorder)
            recorder.close()
        await recordings.close()

    def _opener(self, config: Config) -> Callable[[], Recordings | None]:
        if config.recording is None:
            return lambda: None
        from dragoman.gateway.recording.recordings import recordings_opener, secrets_of

        import_module("dragoman.gateway.recording.recorder")  # it takes 60 ms, and `make_recorder` runs in the loop
        return recordings_opener(config.recording, secrets_of(config), self._ledger, self._memory)


def _redactors(config: Config, wanted: Recording) -> Callable[[], Redactor]:
    from dragoman.gateway.recording.recordings import redactors, secrets_of

    return redactors(wanted.redact, secrets_of(config))
