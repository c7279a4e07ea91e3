"""Logs: structlog on stderr, `key=value`; colours only on a terminal, JSON lines when asked; secrets never."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog

from gateway.recording.redaction.shown import shown

__all__ = ["LEVELS", "Unfailing", "configure", "tell"]

LEVELS = ("debug", "info", "warning", "error")


def configure(level: str = "info", *, as_json: bool = False) -> None:
    """Set up logging for the process; `level` is one of LEVELS."""
    shared: list[Any] = [
        _without_secrets, structlog.processors.add_log_level, structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]  # fmt: skip
    renderer: Any
    if as_json:
        shared.append(structlog.processors.format_exc_info)
        renderer = structlog.processors.JSONRenderer()
    elif sys.stderr.isatty():
        renderer = structlog.dev.ConsoleRenderer(colors=True, exception_formatter=structlog.dev.plain_traceback)
    else:
        shared.append(structlog.processors.format_exc_info)
        renderer = structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"])
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=lambda *_names: Unfailing(sys.stderr),
        cache_logger_on_first_use=False,
    )


def _without_secrets(_logger: object, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = shown(value)
        elif isinstance(value, list):
            event[key] = [shown(item) if isinstance(item, str) else item for item in value]
    return event


class Unfailing:
    """Writes lines to a stream; one that cannot be written is lost, for a log must not end what it logs."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def msg(self, message: str) -> None:
        """Write one line."""
        tell(message, self._stream)

    log = debug = info = warn = warning = error = critical = exception = msg


def tell(line: str, stream: TextIO) -> None:
    """Write a line for whoever reads `stream`, if anybody does."""
    with contextlib.suppress(OSError, ValueError):  # ValueError: the stream was closed
        print(line, file=stream, flush=True)
