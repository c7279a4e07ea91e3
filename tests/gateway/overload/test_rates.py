"""A token bucket allows a burst and then its rate, by a clock that the test sets."""

from __future__ import annotations

from dragoman.gateway.overload.rates import TokenBucket
from tests.gateway.in_memory import ManualClock


def taken(bucket: TokenBucket, most: int = 1_000) -> int:
    """Take single tokens until there is none; return their number."""
    return next((number for number in range(most) if not bucket.take()), most)


def test_a_token_bucket_gives_its_burst_at_once_and_no_more() -> None:
    assert taken(TokenBucket(10, 50, ManualClock().monotonic)) == 50


def test_a_bucket_allows_its_rate_after_a_burst() -> None:
    time = ManualClock()
    bucket = TokenBucket(10, 50, time.monotonic)
    taken(bucket)
    time.passes(2.0)
    assert taken(bucket) == 20


def test_a_token_bucket_never_holds_more_than_its_burst() -> None:
    time = ManualClock()
    bucket = TokenBucket(10, 50, time.monotonic)
    time.passes(1_000)
    assert taken(bucket) == 50


def test_too_large_a_batch_takes_nothing() -> None:
    bucket = TokenBucket(10, 50, ManualClock().monotonic)
    assert not bucket.take(51)
    assert bucket.take(50)
