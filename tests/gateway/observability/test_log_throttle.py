"""At most one line a second, with the number of items since the line before."""

from __future__ import annotations

from collections import Counter

from structlog.testing import capture_logs

from dragoman.gateway.observability.log_throttle import LogThrottle, bad_request_counter
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


def test_malformed_requests_of_the_same_second_are_one_line_with_their_number() -> None:
    clock, counters = ManualClock(), Counter[str]()
    note = bad_request_counter(counters, clock.clock)
    with capture_logs() as logs:
        for _ in range(3):
            note("LineTooLong")
        clock.passes(1.0)
        note("BadStatusLine")
    assert [(line["cause"], line["count"]) for line in logs] == [("LineTooLong", 1), ("BadStatusLine", 3)]
    assert counters == {"refused_request_malformed": 4}
