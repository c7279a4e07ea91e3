"""Logs: structlog on stderr, `key=value`; colours only on a terminal, JSON lines when asked."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

__all__ = ["LEVELS", "configure"]

LEVELS = ("debug", "info", "warning", "error")


def configure(level: str = "info", *, as_json: bool = False) -> None:
    """Set up logging for the process; `level` is one of LEVELS."""
    shared: list[Any] = [structlog.processors.add_log_level, structlog.processors.TimeStamper(fmt="iso", utc=True)]
    renderer: Any
    if as_json:
        shared.append(structlog.processors.format_exc_info)
        renderer = structlog.processors.JSONRenderer()
    elif sys.stderr.isatty():
        renderer = structlog.dev.ConsoleRenderer(colors=True)
    else:
        shared.append(structlog.processors.format_exc_info)
        renderer = structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"])
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
