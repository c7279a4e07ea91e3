"""A token bucket allows a burst and then its rate, by a clock that the test sets."""

from __future__ import annotations

from dragoman.gateway.overload.rates import TokenBucket
from tests.gateway.in_memory import ManualClock


def taken(bucket: TokenBucket, most: int = 1_000) -> int:
    """Take single tokens until there is none; return their number."""
    return next((number for number in range(most) if not bucket.take()), most)


def test_a_token_bucket_gives_its_burst_at_once_and_no_more() -> None:
    assert taken(TokenBucket(10, 50, ManualClock().clock)) == 50


def test_a_bucket_allows_its_rate_after_a_burst() -> None:
    time = ManualClock()
    bucket = TokenBucket(10, 50, time.clock)
    taken(bucket)
    time.passes(2.0)
    assert taken(bucket) == 20


def test_a_token_bucket_never_holds_more_than_its_burst() -> None:
    time = ManualClock()
    bucket = TokenBucket(10, 50, time.clock)
    time.passes(1_000)
    assert taken(bucket) == 50


def test_too_large_a_batch_takes_nothing() -> None:
    bucket = TokenBucket(10, 50, ManualClock().clock)
    assert not bucket.take(51)
    assert bucket.take(50)


def test_a_token_bucket_does_not_change_if_the_clock_is_set_back() -> None:
    now = 1_000_000_000_000
    bucket = TokenBucket(10, 50, lambda: now)
    bucket.take(30)
    now = 0
    assert bucket.tokens == 20
    now = 1_000_000_000
    assert bucket.tokens == 30
