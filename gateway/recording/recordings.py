"""All recordings of a gateway: one place, one writer, a recorder for each route that is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from secrets import token_bytes

import structlog

from dragoman import __version__
from dragoman.gateway.config.model import Config, Redact, Route
from dragoman.gateway.ledger import Ledger
from dragoman.gateway.recording.format import Header
from dragoman.gateway.recording.keeping import Keep
from dragoman.gateway.recording.places import place
from dragoman.gateway.recording.recorder import Recorder
from dragoman.gateway.recording.redaction import Redactor, rules
from dragoman.gateway.recording.track import RecordingContext
from dragoman.gateway.recording.writer import Writer

__all__ = ["Recordings", "redactors"]

log = structlog.get_logger("dragoman.recording")


class Recordings:
    """What a configuration wants recorded, which may be nothing. ConfigError if it cannot go where it should."""

    def __init__(self, config: Config, ledger: Ledger) -> None:
        self._wanted = config.recording
        self._place = place(config.recording.path) if config.recording is not None else None
        self._redactor = redactors(config.recording.redact) if config.recording is not None else None
        self._ledger = ledger
        self._desk: RecordingContext | None = None
        self._writer: Writer | None = None
        self._recorders: list[Recorder] = []

    def open(self) -> None:
        """Begin to write; the loop runs."""
        if self._wanted is None or self._place is None:
            return
        loop = asyncio.get_running_loop()
        wanted = self._wanted
        keep = Keep(count=wanted.keep_count, age=wanted.keep_age, bytes=wanted.keep_bytes)
        self._writer = Writer(self._place, loop.call_soon_threadsafe, keep=keep, compresses=wanted.compress)
        self._desk = RecordingContext(
            self._writer,
            self._ledger,
            loop.call_later,
            rotate_bytes=wanted.rotate_bytes,
            redactor=self._redactor,
        )
        self._writer.start()
        if not wanted.redact.enabled:
            log.warning("SECRETS WILL STAND IN THE RECORDINGS: redaction is off", path=wanted.path)

    def of(self, route: Route, find_id: Callable[[str], str]) -> Recorder | None:
        """The recorder of a route, None if it is not recorded."""
        if self._desk is None or self._wanted is None or not route.record:
            return None
        endpoints = (*route.listen, route.upstream)
        header = Header(
            gateway=__version__,
            route=route.name,
            upstream=route.upstream.masked,
            dialects={endpoint.dialect: endpoint.generation for endpoint in endpoints},
        )
        recorder = Recorder(self._desk, header, everything=self._wanted.links == "all", find_id=find_id)
        self._recorders.append(recorder)
        return recorder

    async def close(self) -> None:
        """Everything that happened is written, as far as the disk takes it in time."""
        for recorder in self._recorders:
            recorder.close()
        writer, self._writer = self._writer, None
        if writer is not None and not await asyncio.to_thread(writer.close):
            log.error("the end of the recordings was not written: the disk did not take it in time")


def redactors(wanted: Redact) -> Callable[[], Redactor]:
    """What makes the redactor of each recording; ConfigError if a pattern or a path is wrong."""
    compiled = None
    if wanted.enabled:
        compiled = rules(
            wanted.patterns,
            wanted.paths,
            window_bytes=wanted.window_bytes,
            window_micros=int(wanted.window_seconds * 1e6),
        )
    return lambda: Redactor(compiled, wanted.salt.encode() or token_bytes(16))
