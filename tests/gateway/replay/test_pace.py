"""When what is said: recorded pauses, made shorter or left out, on a clock of the test's own."""

from __future__ import annotations

import pytest

from dragoman.gateway.replay.pace import INSTANT, Pace, read_speed
from dragoman.mappings.errors import ConfigError
from tests.gateway.in_memory import ManualClock


def paced(speed: float, idle_cap: float | None = None) -> tuple[Pace, ManualClock]:
    time = ManualClock()
    pace = Pace(lambda: time.seconds, speed, idle_cap)
    pace.begin(1_000_000)
    return pace, time


def test_a_pause_is_as_long_as_it_was() -> None:
    pace, _ = paced(1.0)
    assert pace.wait(3_500_000) == pytest.approx(2.5)


def test_at_twice_the_speed_it_is_half_as_long() -> None:
    pace, _ = paced(2.0)
    assert pace.wait(3_500_000) == pytest.approx(1.25)


def test_a_long_pause_is_cut_and_then_made_shorter() -> None:
    pace, _ = paced(2.0, idle_cap=1.0)
    assert pace.wait(60_000_000) == pytest.approx(0.5)


def test_instantly_there_is_no_pause() -> None:
    pace, _ = paced(INSTANT)
    assert pace.wait(60_000_000) <= 0


def test_what_is_late_makes_nothing_else_late() -> None:
    pace, time = paced(1.0)
    time.passes(5)
    assert pace.wait(3_000_000) == pytest.approx(-3)
    pace.reached(3_000_000)
    assert pace.wait(7_000_000) == pytest.approx(1)


def test_a_time_that_goes_back_is_no_pause() -> None:
    pace, _ = paced(1.0)
    pace.reached(2_000_000)
    assert pace.wait(1_500_000) == pytest.approx(1)


def test_a_speed_is_a_word_or_a_number() -> None:
    assert [read_speed(text) for text in ("real", "instant", "4", "x4", "0.5")] == [1, 0, 4, 4, 0.5]


@pytest.mark.parametrize("text", ["", "fast", "0", "-1", "nan", "inf", "xx4"])
def test_anything_else_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ConfigError, match="write real, instant, or a factor"):
        read_speed(text)
