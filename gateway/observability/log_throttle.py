"""Log what can happen often in at most one line a second, with the number of times that it happened.

A LogThrottle does it for any items, a FaultLog for the faults of one link, a `bad_request_counter` for HTTP requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, Protocol, TypeVar

import structlog
from structlog.typing import FilteringBoundLogger

from dragoman.mappings.errors import PeerError

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


class HasLog(Protocol):
    """An object with a log of its own, such as a link."""

    @property
    def log(self) -> FilteringBoundLogger: ...


class FaultLog:
    """Counts the faults of a peer, and logs the last one of each second with their number."""

    __slots__ = ("_clock", "_counters", "_dialect", "_lines", "_owner", "total")

    def __init__(self, dialect: str, owner: HasLog, counters: Counter[str], clock: Callable[[], int]) -> None:
        self._dialect = dialect
        self._owner = owner
        self._counters = counters
        self._clock = clock
        self._lines: LogThrottle[PeerError] | None = None  # made for the first fault: most links have none
        self.total = 0
        """Number of faults since the beginning."""

    def note_all(self, faults: Sequence[PeerError]) -> None:
        """Count the faults of one step, and log them unless there was a line within the last second."""
        for code, count in Counter([fault.code for fault in faults]).items():
            self._counters[f"faults_{self._dialect}_{code}"] += count
        self.total += len(faults)
        if self._lines is None:
            self._lines = LogThrottle(self._clock, partial(_write_line, self._owner))
        self._lines.note(faults[0])
        if len(faults) > 1:
            self._lines.note(faults[-1], len(faults) - 1)

    def flush(self) -> None:
        if self._lines is not None:
            self._lines.flush()


def _write_line(owner: HasLog, fault: PeerError, count: int) -> None:
    owner.log.info("invalid frame received", code=fault.code, reason=fault.text, count=count)


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
