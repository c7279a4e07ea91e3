"""Our RFC 3339 times agree with the standard library; each dialect tests its own use of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.mappings.rfc3339 import NS, parse, seconds

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.datetimes(timezones=st.just(UTC)))
def test_whole_seconds_are_written_like_the_standard_library_writes_them_and_read_back(moment: datetime) -> None:
    whole = moment.replace(microsecond=0)
    at = (whole - EPOCH) // timedelta(seconds=1)
    assert seconds(at) == whole.isoformat().removesuffix("+00:00")
    assert parse(f"{seconds(at)}Z") == at * NS


def test_a_second_outside_of_the_calendar_is_an_empty_text() -> None:
    assert seconds(10**15) == seconds(-(10**15)) == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2024-13-01T00:00:00Z",
        "2024-01-00T00:00:00Z",
        "2023-02-29T00:00:00Z",
        "2024-01-01",
        "2024-01-01T24:00:00Z",
    ],
)
def test_an_invalid_time_is_none(text: str) -> None:
    assert parse(text) is None


@given(st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1)), st.integers(-1439, 1439))  # noqa: DTZ001  # the zone is added below
def test_an_offset_is_subtracted(naive: datetime, minutes: int) -> None:
    moment = naive.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert parse(moment.isoformat()) == (moment - EPOCH) // timedelta(microseconds=1) * 1000


def test_a_fraction_is_nanoseconds_and_a_missing_zone_is_utc() -> None:
    assert parse("1970-01-01T01:00:00.000000001+01:00") == 1
    assert parse("1970-01-01T00:00:01") == NS
