"""The attempts of one route to connect to its backend: how many run at once, and how many may fail.

A session that has commands dials its backend without a wait, so clients that open sessions decide how often a backend
is dialled. Two limits bound what that costs if the backend hangs, is away, or closes each connection. At most `dials`
attempts run at once, and further ones wait for them. A failed attempt takes a token from a bucket, and so does a
connection that ended before the backend had said anything. While the bucket is empty every attempt fails at once, with
the last failure as its reason. Each endpoint has its own bucket, so dead pods of a directory do not keep sessions from
the others. A reload changes both limits: attempts that run count for the old one, and buckets with another rate or
burst are replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Callable

from dragoman.adapters.base import Transport
from dragoman.gateway.config.model import Limits
from dragoman.gateway.overload.rates import TokenBucket
from dragoman.gateway.transports.spec import Connect
from dragoman.mappings.bounded import remember

FAILING_MAX = 256  # endpoints with failures: with one more, the one that has not failed for longest is forgotten
AT_ONCE = contextlib.nullcontext()  # no timeout, which takes 4 us, if an attempt may begin without a wait


class RouteDials:
    """The attempts to connect to the backend of one route.

    `limits` returns the limits that are in force now.
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
