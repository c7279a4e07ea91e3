"""Check the settings of recordings, and open the recordings of a gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from secrets import token_bytes

import structlog

from dragoman.gateway.config.model import Recording, Redact
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.overload.memory import MemoryBudget
from dragoman.gateway.recording.keeping import Keep
from dragoman.gateway.recording.places import place
from dragoman.gateway.recording.recorder import Recordings
from dragoman.gateway.recording.redaction.redactor import Redactor
from dragoman.gateway.recording.redaction.rules import rules
from dragoman.gateway.recording.redaction_worker import RedactionWorker
from dragoman.gateway.recording.writer import Writer

log = structlog.get_logger("dragoman.recording")


def recordings_opener(wanted: Recording, ledger: Ledger, memory: MemoryBudget) -> Callable[[], Recordings]:
    """Return a function that opens the recordings in the running event loop. Raise ConfigError for a wrong setting."""
    where, redactor = place(wanted.path), redactors(wanted.redact)
    keep = Keep(count=wanted.keep_count, age=wanted.keep_age, bytes=wanted.keep_bytes)

    def open_recordings() -> Recordings:
        loop = asyncio.get_running_loop()
        writer = Writer(
            where,
            loop.call_soon_threadsafe,
            keep=keep,
            compresses=wanted.compress,
            rotate_bytes=wanted.rotate_bytes,
        )
        writer.start()
        if not wanted.redact.enabled:
            log.warning("SECRETS WILL STAND IN THE RECORDINGS: redaction is off", path=wanted.path)
        return Recordings(
            writer,
            ledger,
            memory,
            loop.call_later,
            redactor=redactor,
            worker=RedactionWorker(loop.call_soon_threadsafe),
            everything=wanted.links == "all",
        )

    return open_recordings


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
