"""Failed attempts are counted for each address, and logged at growing intervals."""

from __future__ import annotations

from collections import Counter

from structlog.testing import capture_logs

from dragoman.gateway.identity.attempts import ADDRESSES_MAX, FailedAttempts


def test_failures_are_logged_at_powers_of_two_with_their_number() -> None:
    attempts = FailedAttempts(Counter())
    with capture_logs() as logs:
        for _ in range(9):
            attempts.count_failure("192.0.2.7", "this token is not accepted")
    assert [entry["failures"] for entry in logs if entry["log_level"] == "warning"] == [1, 2, 4, 8]
    assert {entry["address"] for entry in logs} == {"192.0.2.7"}


def test_each_failure_is_counted() -> None:
    counters: Counter[str] = Counter()
    attempts = FailedAttempts(counters)
    for number in range(3):
        attempts.count_failure(f"192.0.2.{number}", "wrong")
    assert counters["authentication_failed"] == 3


def test_the_addresses_that_are_remembered_are_bounded() -> None:
    attempts = FailedAttempts(Counter())
    with capture_logs():
        for number in range(ADDRESSES_MAX + 5):
            attempts.count_failure(str(number), "wrong")
    assert len(attempts._failures) == ADDRESSES_MAX
