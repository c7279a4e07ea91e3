"""HTTP requests that cannot be parsed: counted, and logged at most once a second."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import structlog

from dragoman.gateway.observability.log_throttle import LogThrottle

log = structlog.get_logger("dragoman")


class BadRequests:
    """The malformed requests to the HTTP servers of one gateway. `clock` returns nanoseconds."""

    def __init__(self, counters: Counter[str], clock: Callable[[], int]) -> None:
        self._counters = counters
        self._lines: LogThrottle[str] = LogThrottle(
            clock, lambda kind, count: log.warning("HTTP requests refused as malformed", cause=kind, count=count)
        )

    def note(self, kind: str) -> None:
        """Count a request, and log it unless there was a line within the last second."""
        self._counters["refused_request_malformed"] += 1
        self._lines.note(kind)
