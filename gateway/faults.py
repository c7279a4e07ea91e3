"""The faults of one link: each is counted, at most one log line a second tells of them, and their number is kept."""

from __future__ import annotations

from structlog.typing import FilteringBoundLogger

from dragoman.gateway.services import Services
from dragoman.mappings.errors import PeerError

__all__ = ["FaultLog"]

LINE_EVERY = 1_000_000_000  # nanoseconds between two log lines: a flood of bad frames must not cost a line each


class FaultLog:
    """Counts the faults of a peer in the ledger, and logs the last one of each second with their number."""

    def __init__(self, dialect: str, log: FilteringBoundLogger, services: Services) -> None:
        self._dialect = dialect
        self._log = log
        self._clock = services.clock
        self._counters = services.ledger.counters
        self._next = 0  # time of the next log line
        self._waiting: PeerError | None = None  # the last fault, if no line told of it
        self._count = 0  # faults since the last line
        self.total = 0
        """Number of faults since the beginning."""

    def note(self, fault: PeerError) -> None:
        """Count a fault, and log it unless there was a line within the last second."""
        self._counters[f"faults_{self._dialect}_{fault.code}"] += 1
        self._count += 1
        self._waiting = fault
        self.total += 1
        now = self._clock()
        if now >= self._next or self._next > now + LINE_EVERY:  # or the clock was set back
            self._next = now + LINE_EVERY
            self.flush()

    def flush(self) -> None:
        """Log the faults that no line has told of."""
        if self._waiting is not None:
            self._log.info("bad frame", code=self._waiting.code, reason=self._waiting.text, count=self._count)
            self._waiting, self._count = None, 0
