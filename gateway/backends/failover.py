"""Several upstreams of a route: which one gets new sessions, and a circuit breaker for each.

    closed     --  max_fails failures within fail_timeout  -->  open
    open       --  fail_timeout passes                     -->  half-open: one connection is tried
    half-open  --  the backend answers                     -->  closed
    half-open  --  the connection fails                    -->  open

A failure is a connection that cannot be made, or that ends before the backend has said anything. A session that its
backend has opened stays at its upstream in every state of the circuit; all others go to the first upstream that takes
them. If no upstream takes any, the one whose circuit has been open for longest is tried. The inputs of a session whose
upstream is away are refused, and a listener of one session leads its next clients to a new one. The limits are those in
force now: a reload changes those of open circuits, too.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal
from weakref import WeakValueDictionary

import structlog
from msgspec import Struct

from dragoman.adapters.base import NOT_LISTENING, Transport
from dragoman.gateway.config.local_sockets import find_local_server
from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.public_reason import full_reason
from dragoman.gateway.transports.spec import Connect
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.rfc3339 import NS

CircuitState = Literal["closed", "open", "half-open"]
STAYS = "this session stays at its upstream; connect again or open another session, to use the next upstream"

log = structlog.get_logger("dragoman.upstream")


class CircuitBreaker:
    """The circuit of one upstream. Times are those of `clock`, which is monotonic, in nanoseconds.

    `limits` returns the limits in force.
    """

    def __init__(self, limits: Callable[[], Limits], clock: Callable[[], int]) -> None:
        self._limits = limits
        self._clock = clock
        self._failures: deque[int] = deque()  # the times of the latest, at most `max_fails`
        self._probed_at: int | None = None  # the time at which the trial of a half-open circuit began
        self.opened_at: int | None = None

    @property
    def state(self) -> CircuitState:
        """The state at this time; an open circuit becomes half-open by the passing of time."""
        if self.opened_at is None:
            return "closed"
        return "open" if self._is_recent(self.opened_at) else "half-open"

    @property
    def takes(self) -> bool:
        """True if a new session may be connected now. A half-open circuit allows one, and waits for its outcome."""
        is_probed = self._probed_at is not None and self._is_recent(self._probed_at)
        return self.state == "closed" or (self.state == "half-open" and not is_probed)

    def _is_recent(self, at: int) -> bool:
        """Return True if less than `fail_timeout` has passed since `at`."""
        return self._clock() - at < self._limits().fail_timeout * NS

    def note_attempt(self) -> None:
        if self.state == "half-open":
            self._probed_at = self._clock()

    def note_failure(self) -> None:
        """Count a failure. It opens a half-open circuit again, and a closed one if there were too many."""
        now, state, most = self._clock(), self.state, self._limits().max_fails
        self._failures.append(now)
        while len(self._failures) > most:
            self._failures.popleft()
        is_full = len(self._failures) == most and self._is_recent(self._failures[0])
        if state == "half-open" or (state == "closed" and is_full):
            self.opened_at, self._probed_at = now, None

    def note_success(self) -> None:
        """Close the circuit: the backend has answered."""
        self._failures.clear()
        self.opened_at = self._probed_at = None


class PooledUpstream(Struct, kw_only=True, eq=False):
    """An upstream of a route that has several. `connected` counts its connections, `fault` is its last failure."""

    endpoint: Endpoint
    connect: Connect
    breaker: CircuitBreaker
    connected: int = 0
    failures: int = 0
    fault: str = ""


class UpstreamPool:
    """The upstreams of one route, in the order of preference. `limits` returns the limits in force."""

    def __init__(
        self,
        route: str,
        upstreams: Sequence[tuple[Endpoint, Connect]],
        limits: Callable[[], Limits],
        clock: Callable[[], int],
    ) -> None:
        self.limits = limits
        self.upstreams = [
            PooledUpstream(endpoint=endpoint, connect=connect, breaker=CircuitBreaker(limits, clock))
            for endpoint, connect in upstreams
        ]
        self._log = log.bind(route=route)
        self._connections: WeakValueDictionary[int, FailoverConnection] = WeakValueDictionary()

    def add_connection(self, state: SessionState, connection: FailoverConnection) -> None:
        """Remember the connection of a session while it lives. It refers to `state`, whose id() is unique as long."""
        self._connections[id(state)] = connection

    def is_served(self, state: SessionState) -> bool:
        """Return False if the upstream that has opened a session is away while another one takes new sessions."""
        connection = self._connections.get(id(state))
        home = connection.home if connection is not None else None
        return home is None or not self._is_away(home) or not self.has_other(home)

    def has_other(self, upstream: PooledUpstream) -> bool:
        return any(one is not upstream and one.breaker.takes and not self._is_away(one) for one in self.upstreams)

    def _is_away(self, upstream: PooledUpstream) -> bool:
        is_open = upstream.breaker.state == "open"
        return not upstream.connected and (is_open or find_local_server(upstream.endpoint) is False)

    def find_upstream(self, endpoint: Endpoint) -> PooledUpstream:
        return next(one for one in self.upstreams if one.endpoint == endpoint)

    def choose(self, preferred: Endpoint | None = None) -> Endpoint:
        """Return the upstream for a client where each upstream is one session: `preferred`, if it is healthy.

        The system tells at once, without a connection, if no server listens at a socket of this machine.
        """
        candidates = sorted(self.candidates(), key=lambda one: one.endpoint != preferred)
        for upstream in candidates:
            if upstream.connected or find_local_server(upstream.endpoint) is not False:
                return upstream.endpoint
            self.note_failure(upstream, NOT_LISTENING)
        return candidates[0].endpoint

    def candidates(self) -> list[PooledUpstream]:
        """Return the upstreams that take a new session, in their order: at least one."""
        taking = [one for one in self.upstreams if one.breaker.takes]
        return taking or [min(self.upstreams, key=lambda one: one.breaker.opened_at or 0)]

    def note_failure(self, upstream: PooledUpstream, text: str) -> None:
        """Count a failure of an upstream, and log it if its circuit opens."""
        before = upstream.breaker.opened_at
        upstream.failures += 1
        upstream.fault = text
        upstream.breaker.note_failure()
        if before is None and upstream.breaker.opened_at is not None:  # a failed probe changes nothing for operators
            self._log.warning(
                "upstream not healthy, its circuit is open",
                endpoint=upstream.endpoint.masked,
                cause=text,
                next=self.candidates()[0].endpoint.masked,
            )

    def note_success(self, upstream: PooledUpstream) -> None:
        """Note that an upstream has answered, and log it if that closes its circuit."""
        upstream.fault = ""
        was_closed = upstream.breaker.opened_at is None
        upstream.breaker.note_success()
        if not was_closed:
            self._log.info("upstream healthy again, its circuit is closed", endpoint=upstream.endpoint.masked)


class FailoverConnection:
    """Connects one session to the upstreams of a pool.

    `only` is the upstream of a session that must not use another one.
    """

    def __init__(self, pool: UpstreamPool, state: SessionState, only: PooledUpstream | None = None) -> None:
        self._pool = pool
        self._state = state
        self._only = only
        self._last: PooledUpstream | None = None
        pool.add_connection(state, self)

    @property
    def home(self) -> PooledUpstream | None:
        """The upstream that has opened the session, None if none has yet."""
        return self._last if self._state.backend_ids is not None else None

    @property
    def endpoint(self) -> str:
        """The upstream of the last connection, for logs."""
        return (self._last or self._pool.upstreams[0]).endpoint.masked

    async def connect(self) -> Transport:
        """Connect to the first upstream that accepts; raise OSError if none does.

        The attempts share `connect_deadline` in equal parts.
        """
        upstreams = self._usable()
        seconds = self._pool.limits().connect_deadline / len(upstreams)
        for upstream in upstreams:
            upstream.breaker.note_attempt()
            self._last = upstream
            try:
                async with asyncio.timeout(seconds):
                    transport = await upstream.connect()
            except OSError as error:  # TimeoutError is one
                if error.errno == errno.EBUSY:  # our own limit of children: no upstream is to blame
                    raise
                self._pool.note_failure(upstream, full_reason(error) or f"no connection within {seconds:g} s")
                if upstream is upstreams[-1]:  # raised here: a variable would keep it in a cycle with its frames
                    if self._only is None and self.home is not None and self._pool.has_other(self.home):
                        raise OSError(error.errno, f"{error.strerror or error}; {STAYS}") from error
                    raise
            else:
                upstream.connected += 1
                return transport
        raise OSError("no upstream")

    def _usable(self) -> list[PooledUpstream]:
        if self._only is not None:
            return [self._only]
        if self.home is not None:
            return [self.home]
        return self._pool.candidates()

    def note_heard(self) -> None:
        """Note that the backend has sent something over this connection."""
        if self._last is not None:
            self._pool.note_success(self._last)

    def note_end(self, fault: str) -> None:
        """Note the end of a connection. `fault` is its failure if the backend had sent nothing, else ""."""
        if self._last is not None:
            self._last.connected -= 1
            if fault:
                self._pool.note_failure(self._last, fault)
