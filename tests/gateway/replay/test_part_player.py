"""The pace of a replay after an event that was late and after a recorded time that goes back."""

from __future__ import annotations

from dragoman.gateway.replay.part_player import Pace
from tests.gateway.in_memory import ManualClock


def paced() -> tuple[Pace, ManualClock]:
    """Return the pace of a replay that has reached the first second of its recording (µs)."""
    time = ManualClock()
    pace = Pace(lambda: time.seconds)
    pace.begin(1_000_000)
    return pace, time


def test_a_late_event_does_not_delay_the_following_ones() -> None:
    pace, time = paced()
    time.passes(5)
    assert pace.seconds_until(3_000_000) == -3
    pace.reached(3_000_000)
    assert pace.seconds_until(7_000_000) == 1


def test_a_time_that_goes_back_is_no_pause() -> None:
    pace, _ = paced()
    pace.reached(2_000_000)
    pace.reached(1_500_000)
    assert pace.seconds_until(2_500_000) == 1.5
