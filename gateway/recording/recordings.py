"""All recordings of a gateway: one place, one writer, and a recorder for each route that is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from secrets import token_bytes

import structlog

from dragoman import __version__
from dragoman.gateway.config.model import Recording, Redact, Route
from dragoman.gateway.ledger import Ledger
from dragoman.gateway.memory import MemoryBudget
from dragoman.gateway.recording.format import Header
from dragoman.gateway.recording.keeping import Keep
from dragoman.gateway.recording.places import place
from dragoman.gateway.recording.recorder import Recorder, RecordingContext
from dragoman.gateway.recording.redaction.redactor import Redactor
from dragoman.gateway.recording.redaction.rules import rules
from dragoman.gateway.recording.redaction_worker import RedactionWorker
from dragoman.gateway.recording.writer import Writer
from dragoman.mappings.canonical import SessionState

log = structlog.get_logger("dragoman.recording")


class Recordings:
    """The recordings of a gateway. Raise ConfigError if the path cannot be used."""

    def __init__(self, wanted: Recording, ledger: Ledger, memory: MemoryBudget) -> None:
        self._wanted = wanted
        self._place = place(wanted.path)
        self._redactor = redactors(wanted.redact)
        self._ledger = ledger
        self._memory = memory
        self._context: RecordingContext | None = None
        self._writer: Writer | None = None
        self._worker: RedactionWorker | None = None
        self._recorders: list[Recorder] = []

    @property
    def writer(self) -> Writer | None:
        """The writer of all files, while the recordings are open."""
        return self._writer

    def open(self) -> None:
        """Start the writer's thread. Call this in the running event loop."""
        loop = asyncio.get_running_loop()
        wanted = self._wanted
        keep = Keep(count=wanted.keep_count, age=wanted.keep_age, bytes=wanted.keep_bytes)
        self._writer = Writer(
            self._place,
            loop.call_soon_threadsafe,
            keep=keep,
            compresses=wanted.compress,
            rotate_bytes=wanted.rotate_bytes,
        )
        self._worker = RedactionWorker(loop.call_soon_threadsafe)
        self._context = RecordingContext(
            self._writer, self._ledger, self._memory, loop.call_later, redactor=self._redactor, worker=self._worker
        )
        self._writer.start()
        if not wanted.redact.enabled:
            log.warning("SECRETS WILL STAND IN THE RECORDINGS: redaction is off", path=wanted.path)

    def of(
        self, route: Route, find_id: Callable[[str], str], public_ids: Callable[[SessionState], list[str]]
    ) -> Recorder | None:
        """Return the recorder of a route, or None if it is not recorded."""
        if self._context is None or not route.record:
            return None
        endpoints = (*route.listen, route.upstream)
        header = Header(
            gateway=__version__,
            route=route.name,
            upstream=route.upstream.masked,
            dialects={endpoint.dialect: endpoint.generation for endpoint in endpoints},
        )
        recorder = Recorder(
            self._context, header, everything=self._wanted.links == "all", find_id=find_id, public_ids=public_ids
        )
        self._recorders.append(recorder)
        return recorder

    async def close(self) -> None:
        """Write everything that was recorded, and stop. Log an error if the disk takes too long."""
        for recorder in self._recorders:
            recorder.close()
        if self._worker is not None:
            await self._worker.close()
        writer, self._writer = self._writer, None
        if writer is not None and not await asyncio.to_thread(writer.close):
            log.error("the end of the recordings was not written: the disk did not take it in time")


def redactors(wanted: Redact) -> Callable[[], Redactor]:
    """Return a function that makes the redactor of a recording. Raise ConfigError for a wrong pattern or path."""
    compiled = None
    if wanted.enabled:
        compiled = rules(
            wanted.patterns,
            wanted.paths,
            window_bytes=wanted.window_bytes,
            window_micros=int(wanted.window_seconds * 1e6),
        )
    return lambda: Redactor(compiled, wanted.salt.encode() or token_bytes(16))
