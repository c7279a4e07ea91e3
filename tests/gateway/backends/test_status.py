"""The status of the connections to a backend."""

from __future__ import annotations

from dragoman.gateway.backends.status import BackendStatus


def test_a_fault_is_over_once_the_backend_says_something() -> None:
    status = BackendStatus()
    status.note_fault("refused", 5)
    assert (status.fault, status.fault_at, status.lost) == ("refused", 5, 1)
    status.note_heard()
    assert (status.fault, status.heard, status.lost) == ("", 1, 1)
