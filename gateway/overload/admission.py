"""Decide whether a new connection is accepted, how often its client may send, and whether a command is too large.

A WebSocket listener counts each connection from its accept, so that connections without a handshake count too. Any
other peer counts, and is refused in its dialect, when its link is made. The limit `links` of the whole gateway counts
links alone: a client above this limit gets an error in its dialect.

The bytes of a command are checked before it is decoded: decoding builds an object for each JSON value, and holds the
interpreter until it is done (docs/performance.md, "The work of one step"). The values of a frame of more than 1 MiB are
counted in slices. A refused frame becomes Oversize, so the client gets its dialect's own error and stays connected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import structlog

from dragoman.adapters.base import Sink
from dragoman.adapters.inbound import memory
from dragoman.gateway.config.model import Limits
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.observability.log_throttle import FaultLog, LogThrottle
from dragoman.gateway.overload.descriptors import descriptor_shortage
from dragoman.gateway.overload.fair_queue import QUANTUM
from dragoman.gateway.overload.memory import MemoryBudget
from dragoman.gateway.overload.rates import TokenBucket
from dragoman.gateway.services import Services
from dragoman.mappings.bounded import remember
from dragoman.mappings.dialect import HEAD, Dialect, Frame, Oversize, Parts
from dragoman.mappings.errors import PeerError, PeerErrorCode
from dragoman.mappings.value_count import count_values

log = structlog.get_logger("dragoman")

ADDRESSES_MAX = 10_000  # addresses whose rate is remembered, the latest: as many as there can be links


class Admission:
    """The connections of each address, and the number of links. `clock` is monotonic and returns nanoseconds."""

    def __init__(self, limits: Limits, memory: MemoryBudget, ledger: Ledger, clock: Callable[[], int]) -> None:
        self._limits = limits
        self._memory = memory
        self._clock = clock
        self._connections: Counter[str] = Counter()  # connections of each address
        self._rates: dict[str, TokenBucket] = {}  # the address that connected last at the end
        self._links = 0
        self._counters = ledger.counters
        self._lines: LogThrottle[str] = LogThrottle(
            clock, lambda text, count: log.warning("clients refused", cause=text, count=count)
        )

    def change_limits(self, limits: Limits) -> None:
        """Apply new limits immediately. If the rate has changed, each address gets a full bucket."""
        if _rate_of(limits) != _rate_of(self._limits):
            self._rates.clear()
        self._limits = limits

    def connect(self, address: str) -> str:
        """Count a connection from this address, or return why it is not accepted now, in words for the peer."""
        reason, text = self._shortage(address)
        if text:
            return self._refuse(reason, text)
        rate = self._rates.get(address)
        if rate is None:
            rate = TokenBucket(*_rate_of(self._limits), self._clock)
        rate.take()
        remember(self._rates, address, rate, ADDRESSES_MAX)
        self._connections[address] += 1
        return ""

    def disconnect(self, address: str) -> None:
        if self._connections[address] > 1:
            self._connections[address] -= 1
        else:
            self._connections.pop(address, None)

    def enter(self, address: str = "") -> str:
        """Count a link, or return why it is not accepted now. With an address, its connection is counted too."""
        most = self._limits.links
        if self._links >= most:
            return self._refuse("links", f"too many clients: the limit `links` is {most}")
        text = self.connect(address) if address else ""
        if not text:
            self._links += 1
        return text

    def leave(self, address: str = "") -> None:
        """Stop counting a link, and with an address also its connection."""
        self._links -= 1
        if address:
            self.disconnect(address)

    def _refuse(self, reason: str, text: str) -> str:
        """Count a refusal and return its text. Refusals are logged at most once a second."""
        self._counters[f"refused_client_{reason}"] += 1
        self._lines.note(text)
        return text

    def _shortage(self, address: str) -> tuple[str, str]:
        """Return the code and the text of the resource that is exhausted; ("", "") if there is room."""
        limits = self._limits
        rate = self._rates.get(address)
        if self._connections[address] >= limits.address_links:
            text = f"too many clients from your address: the limit `address_links` is {limits.address_links}"
            return "address_links", text
        if rate is not None and rate.tokens < 1:
            each = f"{limits.connection_rate:g} a second"
            text = f"too many connections from your address: the limit `connection_rate` is {each}; try again later"
            return "connection_rate", text
        if text := descriptor_shortage():
            return "descriptors", text
        text = self._memory.refusal()
        return ("memory", text) if text else ("", "")

    def flush(self) -> None:
        """Log the number of refusals that no line has counted yet."""
        self._lines.flush()


def _rate_of(limits: Limits) -> tuple[float, float]:
    return limits.connection_rate, limits.connection_burst


class ClientRates:
    """The rates of one client's messages and faults. `refuse` is called if one of them is exceeded."""

    __slots__ = ("_fault_log", "_faults", "_messages", "_refuse", "_sink", "_total")

    def __init__(
        self, services: Services, sink: Sink, fault_log: FaultLog, refuse: Callable[[PeerErrorCode, str], None]
    ) -> None:
        limits, clock = services.limits, services.monotonic
        self._messages = TokenBucket(limits.message_rate, limits.message_burst, clock)
        self._faults = TokenBucket(limits.fault_rate, limits.fault_burst, clock)
        self._sink, self._fault_log, self._refuse = sink, fault_log, refuse
        self._total = 0  # faults that were counted

    def take(self, frames: Sequence[Frame]) -> int:
        """Act on frames like `sink`, and count those that it takes."""
        taken = self._sink(frames)
        self.count(taken)
        return taken

    def count(self, messages: int) -> None:
        """Count further messages, and the faults since the last ones; refuse the peer if there were too many."""
        total = self._fault_log.total
        faults, self._total = total - self._total, total
        if faults and not self._faults.take(faults):
            self._refuse("too_many_faults", "too many bad messages in a short time (`fault_rate`)")
        elif not self._messages.take(messages):
            self._refuse("too_many_messages", "too many messages in a short time (`message_rate`)")


class CommandLimits:
    """The limits `max_command` and `message_values` for clients of one dialect."""

    __slots__ = ("_count", "_large_part", "_size", "_values", "unchecked")

    def __init__(self, limits: Limits, dialect: Dialect) -> None:
        self.unchecked = min(limits.max_command, limits.message_values)
        """Size (bytes) up to which a frame needs no check: each value has at least one byte."""
        self._size = limits.max_command
        self._values = limits.message_values
        self._large_part = dialect.cost.large_part
        self._count: Iterator[None] | None = None  # of the values of a frame that is checked in several calls

    def check(self, frame: Frame) -> Frame | None:
        """Return the frame, or an Oversize in its place if it exceeds a limit.

        Return None if a part of its values was counted. The caller then passes the same frame again.
        """
        parts = _parts(frame)
        size = sum(map(len, parts))
        if size <= self.unchecked:
            return frame
        if self._count is None:
            if size > self._size and size - self._large_part(parts[-1]) > self._size:  # the last part is the command
                return Oversize(size=size, limit=self._size, name="max_command", head=parts[-1][:HEAD])
            self._count = count_values(parts[-1], self._values)
        checked: Frame | None
        try:
            checked = next(self._count, frame)
        except PeerError:
            checked = Oversize(size=size, limit=self._values, name="message_values", head=parts[-1][:HEAD])
        if checked is not None:
            self._count = None
        return checked


def expected_work(inputs: Sequence[bytes], frame: Frame) -> int:
    """Return the least work (units) that a frame is expected to take.

    That is a quantum for an input, else the work of its bytes. `inputs` are the words by which a dialect's inputs are
    known (`CommandCost.inputs`).
    """
    return QUANTUM if any(word in part for part in _parts(frame) for word in inputs) else memory(frame)


def _parts(frame: Frame) -> Sequence[bytes]:
    return frame.parts if isinstance(frame, Parts) else (frame,) if isinstance(frame, bytes) else ()
