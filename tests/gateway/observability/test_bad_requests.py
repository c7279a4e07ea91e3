"""Malformed HTTP requests: each one counts, and the log has one line a second."""

from __future__ import annotations

from collections import Counter

from structlog.testing import capture_logs

from dragoman.gateway.observability.bad_requests import BadRequests
from tests.gateway.in_memory import ManualClock


def test_requests_of_the_same_second_are_one_line_with_their_number() -> None:
    clock, counters = ManualClock(), Counter[str]()
    requests = BadRequests(counters, clock.clock)
    with capture_logs() as logs:
        for _ in range(3):
            requests.note("LineTooLong")
        clock.passes(1.0)
        requests.note("BadStatusLine")
    assert [(line["cause"], line["count"]) for line in logs] == [("LineTooLong", 1), ("BadStatusLine", 3)]
    assert counters == {"refused_request_malformed": 4}
