"""Token buckets, which limit the messages, faults or connections a second, with a burst.

A bucket is full at first, loses a token with each message, fault or connection, and gets `rate` tokens a second.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.mappings.rfc3339 import NS


class TokenBucket:
    """`rate` tokens a second, at most `burst`; `clock` is monotonic and returns nanoseconds."""

    __slots__ = ("_at", "_burst", "_clock", "_rate", "_tokens")

    def __init__(self, rate: float, burst: float, clock: Callable[[], int]) -> None:
        self._rate = rate / NS
        self._burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._at = clock()

    @property
    def tokens(self) -> float:
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        return self._tokens

    def take(self, count: int = 1) -> bool:
        """Take tokens and return True; return False and take none if there are too few."""
        now = self._clock()  # as in `tokens`, without its call: a client's message takes one
        tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        self._tokens = tokens if tokens < count else tokens - count
        return tokens >= count
