"""Bound the log lines of what can happen often, so that no peer can cause lines without end.

A LogThrottle writes at most one line a second about repeated items, with their number. A FaultLog does so for the
faults of one link, and a `bad_request_counter` for HTTP requests.

Any other lines are limited by kind. A kind is one log statement in the code together with one principal, so a flood of
one principal hides no line of another. Lines above the limit are dropped, and the next one of the kind has their number
as `omitted`. Lines of level debug are not limited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import structlog
from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from dragoman.gateway.overload.rates import TokenBucket
from dragoman.mappings.bounded import remember
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
        self._waiting: list[T] = []  # the last item, if it was not logged
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


LINE_RATE = 20.0  # lines of one kind a second: 200 busy clients that come and go cause 16
LINE_BURST = 1_000  # so many at once: the clients of one principal that come back after a restart
KINDS_MAX = 1_000  # kinds that are remembered: there are about 100 places that log, for each principal

Kind = tuple[object, ...]


class KnownKind(Struct):
    """The lines of a kind that may be written, and the number of those that were not since the last one."""

    bucket: TokenBucket
    omitted: int = 0


class LineLimit:
    """The processor of structlog that drops a line if there were too many of its kind. `clock` returns nanoseconds."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._kinds: dict[Kind, KnownKind] = {}

    def __call__(self, logger: object, method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        omitted = self.admit(getattr(logger, "component", ""), line) if method != "debug" else 0
        if omitted is None:
            raise structlog.DropEvent
        if omitted:
            line["omitted"] = omitted
        return line

    def admit(self, component: str, line: Mapping[str, Any]) -> int | None:
        """Return how many lines of this kind were omitted before this one, or None to omit this one too."""
        kind = _kind_of(component, line)
        known = self._kinds.get(kind)
        if known is None:
            known = KnownKind(TokenBucket(LINE_RATE, LINE_BURST, self._clock))
            remember(self._kinds, kind, known, KINDS_MAX)
        if not known.bucket.take():
            known.omitted += 1
            return None
        omitted, known.omitted = known.omitted, 0
        return omitted


def _kind_of(component: str, line: Mapping[str, Any]) -> Kind:
    """Return the kind of a line: only fields that no peer chooses, because the text of a library may quote a peer."""
    text = line.get("event") if component.startswith("dragoman") else ""
    return component, text, line.get("action"), line.get("outcome") == "done", line.get("principal")
