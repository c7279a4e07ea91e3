"""Times and durations as Go writes them."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.mappings.pando.wire.topics import ChangeTopic
from dragoman.mappings.pando.wire.values import ZERO, duration, nanoseconds, rfc3339


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((-1, "0s"), (0, "0s"), (0.4, "0s"), (0.5, "1s"), (5, "5s")),
        *((60, "1m0s"), (65, "1m5s"), (5400, "1h30m0s"), (93603, "26h0m3s")),
    ],
)
def test_a_duration_is_rounded_to_seconds_and_has_no_days(seconds: float, text: str) -> None:
    assert duration(int(seconds * 10**9)) == text


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (1_778_362_100_123_456_789, "2026-05-09T21:28:20.123456789Z"),
        (1_778_362_100_120_000_000, "2026-05-09T21:28:20.12Z"),
        (1_778_362_100_000_000_000, "2026-05-09T21:28:20Z"),
        (0, ZERO),
    ],
)
def test_a_time_has_no_trailing_zeros_and_an_unknown_one_is_the_zero_time(at: int, text: str) -> None:
    assert (rfc3339(at), nanoseconds(text)) == (text, at)


@given(st.integers(1, 4_000_000_000 * 10**9))
def test_a_time_that_was_written_reads_back(at: int) -> None:
    assert nanoseconds(rfc3339(at)) == at


@pytest.mark.parametrize("text", ["yesterday", "2026-05-09T21:28:20", "2026-05-09 21:28:20Z", "2026-13-09T21:28:20Z"])
def test_a_time_that_go_does_not_read_is_none(text: str) -> None:
    assert nanoseconds(text) is None


def test_the_topics_of_the_store_are_those_that_a_pando_has() -> None:
    assert len(get_args(ChangeTopic)) == 13
    assert all(topic.startswith("db.") and topic.count(".") == 2 for topic in get_args(ChangeTopic))
