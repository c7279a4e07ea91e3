"""Our RFC 3339 times agree with the standard library."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.mappings.smooth.wire.values import nanoseconds, rfc3339

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = st.datetimes(timezones=st.just(UTC))


def since_epoch(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1) * 1000


@given(MOMENTS)
def test_a_time_is_written_like_the_standard_library_writes_it(moment: datetime) -> None:
    assert rfc3339(since_epoch(moment)) == moment.isoformat().replace("+00:00", "Z")


@given(MOMENTS)
def test_a_written_time_is_read_back(moment: datetime) -> None:
    assert nanoseconds(rfc3339(since_epoch(moment))) == since_epoch(moment)


@given(st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1)), st.integers(-1439, 1439))  # noqa: DTZ001  # the zone is added below
def test_an_offset_is_subtracted(naive: datetime, minutes: int) -> None:
    moment = naive.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert nanoseconds(moment.isoformat()) == since_epoch(moment)


def test_nanoseconds_are_read_and_a_missing_zone_is_utc() -> None:
    assert nanoseconds("1970-01-01T00:00:01.123456789Z") == 1_123_456_789
    assert nanoseconds("1970-01-01T00:00:01") == 1_000_000_000


@pytest.mark.parametrize("text", ["", "yesterday", "2024-13-01T00:00:00Z", "2024-01-00T00:00:00Z", "2024-01-01"])
def test_an_invalid_time_is_the_epoch(text: str) -> None:
    assert nanoseconds(text) == 0


@pytest.mark.parametrize("at", [10**30, -(10**30)])
def test_a_time_outside_of_the_calendar_is_the_epoch(at: int) -> None:
    assert rfc3339(at) == "1970-01-01T00:00:00Z"
