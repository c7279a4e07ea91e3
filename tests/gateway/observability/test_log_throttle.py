"""At most one line a second, with the number of items since the line before."""

from __future__ import annotations

from dragoman.gateway.observability.log_throttle import LogThrottle
from tests.gateway.in_memory import ManualClock


def test_each_second_has_a_line_with_the_last_item_and_the_count() -> None:
    time, lines = ManualClock(), list[tuple[str, int]]()
    throttle = LogThrottle[str](time.clock, lambda item, count: lines.append((item, count)))
    for item in "abc":
        throttle.note(item)
    time.passes(1.5)
    throttle.note("d")
    throttle.note("e")
    throttle.flush()
    throttle.flush()
    assert lines == [("a", 1), ("d", 3), ("e", 1)]
