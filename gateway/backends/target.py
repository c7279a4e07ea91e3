"""A backend that can be dialled, how often that is tried, and the logs and counters of the connections to it.

Each change is logged, not each attempt. A connection over which the backend has sent nothing counts as a failure: for
the circuit of its upstream, if the route has several, and for the attempts that the route may make.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import structlog
from msgspec import Struct, field

from dragoman.adapters.base import Transport
from dragoman.gateway.backends.failover import FailoverConnection
from dragoman.gateway.backends.spare_children import SpareChildren
from dragoman.gateway.backends.status import BackendStatus
from dragoman.gateway.config.model import Limits
from dragoman.gateway.first_frames import FirstFrames
from dragoman.gateway.observability import logs
from dragoman.gateway.overload.rates import TokenBucket
from dragoman.gateway.transports.spec import Connect
from dragoman.mappings.bounded import remember
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.dialect import Clock, Dialect

if TYPE_CHECKING:
    from dragoman.gateway.recording.recorder import Tap

FAILING_MAX = 256  # endpoints with failures: with one more, the one that has not failed for longest is forgotten
AT_ONCE = contextlib.nullcontext()  # no timeout, which takes 4 us, if an attempt may begin without a wait
UNHEARD = "the connection ended before the backend sent anything"

log = structlog.get_logger("dragoman.upstream")


class RouteDials:
    """The attempts of one route to connect to its backend. `limits` returns the limits that are in force now.

    A session that has commands dials its backend without a wait, so clients that open sessions decide how often a
    backend is dialled. Two limits bound what that costs if the backend hangs, is away, or closes each connection. At
    most `dials` attempts run at once, and further ones wait for them. A failed attempt takes a token from a bucket, and
    so does a connection that ended before the backend had said anything. While the bucket is empty every attempt fails
    at once, with the last failure as its reason. Each endpoint has its own bucket, so dead pods of a directory do not
    keep sessions from the others. A reload changes both limits: attempts that run count for the old one, and buckets
    with another rate or burst are replaced.
    """

    def __init__(self, limits: Callable[[], Limits], clock: Callable[[], int]) -> None:
        self._limits_now = limits
        self._known = limits()  # the limits by which the semaphore and the buckets were made
        self._clock = clock
        self._slots = asyncio.Semaphore(self._known.dials)
        self._failures: dict[str, tuple[TokenBucket, str]] = {}
        """Endpoint -> the bucket of its failed attempts and the reason of the last one; the latest at the end."""

    async def connect(self, endpoint: str, connect: Connect, deadline: float | None) -> Transport:
        """Connect to the endpoint before the deadline; raise OSError if that fails or too many attempts have failed.

        The wait until fewer than `dials` attempts run has a deadline of its own.
        """
        limits = self._limits()
        failed = self._failures.get(endpoint)
        if failed is not None and failed[0].tokens < 1:
            raise OSError(errno.EAGAIN, f"{failed[1]}; too many connections failed (`failed_dial_rate`)")
        slots = self._slots
        async with asyncio.timeout(limits.connect_deadline) if slots.locked() else AT_ONCE:
            await slots.acquire()
        try:
            async with asyncio.timeout(deadline):
                return await connect()
        except OSError as error:  # TimeoutError is one
            if not _is_refusal(error):
                self.note_failure(endpoint, error.strerror or str(error) or "no connection in time")
            raise
        finally:
            slots.release()

    def note_failure(self, endpoint: str, reason: str) -> None:
        """Count a connection that was not made, or that ended before the backend had said anything."""
        limits = self._limits()
        failed = self._failures.get(endpoint)
        bucket = failed[0] if failed is not None else TokenBucket(*_bucket_of(limits), self._clock)
        bucket.take()
        remember(self._failures, endpoint, (bucket, reason), FAILING_MAX)

    def _limits(self) -> Limits:
        """Return the limits in force. If they have changed, replace the semaphore and the buckets."""
        limits, known = self._limits_now(), self._known
        if limits is not known:
            self._known = limits
            if limits.dials != known.dials:
                self._slots = asyncio.Semaphore(limits.dials)
            if _bucket_of(limits) != _bucket_of(known):
                self._failures.clear()
        return limits


def _bucket_of(limits: Limits) -> tuple[float, float]:
    return limits.failed_dial_rate, limits.failed_dial_burst


def _is_refusal(error: OSError) -> bool:
    """Return True if an attempt failed for the user's credentials or our own limit of children, not for the backend."""
    denied = getattr(error, "status", 0) in (401, 403)  # of a HandshakeRefusedError, whose module is imported late
    return denied or error.errno in (errno.EBUSY, errno.EACCES)


class UpstreamTarget(Struct, frozen=True, kw_only=True):
    """A backend that can be dialled by `connect`.

    `endpoint` names it in logs, `tap` records the connection, and `status` counts it. `headers` returns the headers for
    the handshake with a WebSocket. `failover` is set if the route has several upstreams: `connect` is a method of it
    then. `dials` is shared by all sessions of the route, and `children` by those of all routes.
    """

    endpoint: str
    dialect: Dialect
    connect: Connect
    dials: RouteDials
    tap: Tap | None = None
    headers: Callable[[], Mapping[str, str]] = dict
    status: BackendStatus = field(default_factory=BackendStatus)
    failover: FailoverConnection | None = None
    children: SpareChildren = field(default_factory=SpareChildren)


class ConnectionReport:
    """Reports the connections of a session to `target`; `endpoint` is the one that was dialled last."""

    __slots__ = ("_about", "_clock", "_complaint", "_is_reached", "_target", "endpoint")

    def __init__(self, about: SessionState, target: UpstreamTarget, clock: Clock) -> None:
        self._about = about
        self._target = target
        self._clock = clock
        self._is_reached = True
        self._complaint = ""  # the last logged complaint about a backend of another dialect
        self.endpoint = target.endpoint

    def note_unreachable(self, why: str) -> None:
        if self._is_reached:
            self._log("warning", "backend not reachable, trying again", cause=why)
        self._is_reached = False
        self._target.status.note_fault(why, self._clock())

    def note_reached(self) -> None:
        self._is_reached = True
        if self._target.failover is not None:
            self.endpoint = self._target.failover.endpoint

    def note_unused(self) -> None:
        """Note that a new connection is closed immediately, because it is not needed any more."""
        if self._target.failover is not None:
            self._target.failover.note_end("")

    def note_start(self) -> None:
        if not self._complaint:
            self._log("info", "backend connected")
        self._target.status.connected += 1

    def note_heard(self) -> None:
        self._target.status.note_heard()
        if self._target.failover is not None:
            self._target.failover.note_heard()

    def note_wrong_dialect(self, first: FirstFrames) -> None:
        """Log that the backend speaks another dialect, once until it changes."""
        complaint = first.complaint(quoted=True)
        if complaint != self._complaint:
            self._log("warning", "backend of another dialect, trying again", cause=f"{self.endpoint} {complaint}")
        self._complaint = complaint

    def note_lost(self, text: str, reason: str, *, is_wrong: bool) -> None:
        """Note that a connection was lost, before it is closed. If the dialect `is_wrong`, that was logged."""
        if not is_wrong:
            self._complaint = ""
            self._log("warning", "backend lost, connecting again", **({"cause": reason} if reason else {}))
        self._target.status.note_fault(f"{text}: {reason}" if reason else text, self._clock())

    def note_end(self, *, heard: bool, by_peer: bool) -> None:
        """Note that a connection is closed.

        `heard`: the backend had sent something. `by_peer`: the backend ended the connection.
        """
        status = self._target.status
        status.connected -= 1
        status.heard -= heard
        status.dropped += heard and by_peer
        fault = UNHEARD if by_peer and not heard else ""
        if fault:
            self._target.dials.note_failure(self.endpoint, fault)
        if self._target.failover is not None:
            self._target.failover.note_end(fault)

    def _log(self, level: str, text: str, **details: str) -> None:
        if logs.LEVEL.passes("upstream", level):
            getattr(log, level)(text, session=self._about.id, endpoint=self.endpoint, **details)
