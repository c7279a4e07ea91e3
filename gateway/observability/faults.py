"""The faults of one link: each is counted, at most one log line a second tells of them, and their number is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from structlog.typing import FilteringBoundLogger

from dragoman.gateway.observability.log_throttle import LogThrottle
from dragoman.gateway.services import Services
from dragoman.mappings.errors import PeerError


class HasLog(Protocol):
    """An object with a log of its own, such as a link."""

    @property
    def log(self) -> FilteringBoundLogger: ...


class FaultLog:
    """Counts the faults of a peer in the ledger, and logs the last one of each second with their number."""

    __slots__ = ("_clock", "_counters", "_dialect", "_lines", "_owner", "total")

    def __init__(self, dialect: str, owner: HasLog, services: Services) -> None:
        self._dialect = dialect
        self._owner = owner
        self._counters = services.ledger.counters
        self._clock = services.monotonic
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
