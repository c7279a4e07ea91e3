"""Log what can happen often in at most one line a second, with the number of times that it happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Generic, TypeVar

import structlog

LINE_EVERY = 1_000_000_000  # nanoseconds between two log lines: a flood must not cost a line for each event

T = TypeVar("T")

log = structlog.get_logger("dragoman")


class LogThrottle(Generic[T]):
    """Calls `write_line` with the last item of each second and the number of items since the line before.

    `clock` is monotonic and returns nanoseconds.
    """

    def __init__(self, clock: Callable[[], int], write_line: Callable[[T, int], None]) -> None:
        self._clock = clock
        self._write_line = write_line
        self._next = 0  # time of the next log line
        self._waiting: list[T] = []  # the last item, if no line has told of it
        self._count = 0  # items since the last line

    def note(self, item: T, count: int = 1) -> None:
        """Count an item, or several with this as the last; log it unless there was a line within the last second."""
        self._count += count
        self._waiting = [item]
        now = self._clock()
        if now >= self._next:
            self._next = now + LINE_EVERY
            self.flush()

    def flush(self) -> None:
        """Log the number of items that no line has counted yet."""
        if self._waiting:
            self._write_line(self._waiting[0], self._count)
            self._waiting, self._count = [], 0


def bad_request_counter(counters: Counter[str], clock: Callable[[], int]) -> Callable[[str], None]:
    """Return a function that counts HTTP requests and TLS handshakes that are refused, with the kind of each.

    The log has at most one line a second.
    """
    lines: LogThrottle[str] = LogThrottle(
        clock, lambda kind, count: log.warning("HTTP requests or TLS handshakes refused", cause=kind, count=count)
    )

    def note(kind: str) -> None:
        counters["refused_request_malformed"] += 1
        lines.note(kind)

    return note
