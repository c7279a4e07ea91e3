"""The log lines and counts of connections to one backend, also if it speaks another dialect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from dragoman.adapters.base import Transport
from dragoman.gateway import registry
from dragoman.gateway.backends.dials import RouteDials
from dragoman.gateway.backends.failover import FailoverConnection
from dragoman.gateway.backends.target import UNHEARD, ConnectionReport, UpstreamTarget
from dragoman.gateway.config.model import Limits
from dragoman.gateway.first_frames import FirstFrames
from dragoman.mappings.canonical import SessionState

NOW = 5


class Failover:
    """A connection to one of several upstreams. It records the calls that it gets."""

    def __init__(self) -> None:
        self.endpoint = "pod+unix:/second"
        self.told: list[str] = []

    def note_heard(self) -> None:
        self.told.append("heard")

    def note_end(self, fault: str) -> None:
        self.told.append(fault)


async def dial() -> Transport:
    pytest.fail("a report connects to nothing")


class Reported:
    """The report of a session `s`, and everybody who is told by it."""

    def __init__(self) -> None:
        self.failover = Failover()
        self.dials = RouteDials(lambda: Limits(failed_dial_burst=1), lambda: 0)
        self.target = UpstreamTarget(
            endpoint="pod+unix:/first",
            dialect=registry.dialect("pod"),
            connect=dial,
            dials=self.dials,
            failover=cast("FailoverConnection", self.failover),
        )
        self.report = ConnectionReport(SessionState(id="s"), self.target, lambda: NOW)

    def first(self, frame: bytes) -> FirstFrames:
        first = FirstFrames(self.target.dialect, dict, cast("Any", lambda _delay, _call: None), lambda _first: None)
        first.take([frame])
        return first


@pytest.fixture
def made() -> Reported:
    return Reported()


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    with capture_logs() as logs:
        yield logs


def test_only_the_first_of_several_failed_attempts_is_logged(made: Reported, logged: list[Any]) -> None:
    for _ in range(3):
        made.report.note_unreachable("nobody listens")
    assert [(line["event"], line["cause"], line["session"]) for line in logged] == [
        ("backend not reachable, trying again", "nobody listens", "s")
    ]
    assert (made.target.status.lost, made.target.status.fault_at) == (3, NOW)


def test_a_failure_after_a_success_is_logged_again_with_the_upstream_that_was_dialled(
    made: Reported, logged: list[Any]
) -> None:
    made.report.note_unreachable("nobody listens")
    made.report.note_reached()
    made.report.note_unreachable("nobody listens")
    assert [line["endpoint"] for line in logged] == ["pod+unix:/first", "pod+unix:/second"]


@pytest.mark.parametrize(
    ("heard", "by_peer", "fault", "dropped"), [(True, True, "", 1), (True, False, "", 0), (False, False, "", 0)]
)
def test_the_end_of_a_connection_is_no_failure_if_it_was_heard_or_ended_by_us(
    made: Reported, heard: bool, by_peer: bool, fault: str, dropped: int
) -> None:
    made.report.note_start()
    if heard:
        made.report.note_heard()
    made.report.note_end(heard=heard, by_peer=by_peer)
    status = made.target.status
    assert (status.connected, status.heard, status.dropped) == (0, 0, dropped)
    assert made.failover.told == [*(["heard"] if heard else []), fault]


async def test_a_connection_without_a_word_is_a_failure_of_its_upstream_and_of_the_attempts(made: Reported) -> None:
    made.report.note_start()
    made.report.note_end(heard=False, by_peer=True)
    assert made.failover.told == [UNHEARD]
    with pytest.raises(OSError, match=UNHEARD):
        await made.dials.connect("pod+unix:/first", dial, 1.0)


def test_a_connection_that_nobody_needs_any_more_ends_at_its_upstream_without_a_failure(made: Reported) -> None:
    made.report.note_unused()
    assert made.failover.told == [""]


def test_a_backend_of_another_dialect_is_logged_once_until_it_sends_something_else(
    made: Reported, logged: list[Any]
) -> None:
    for frame in (b"hello", b"hello", b"other"):
        made.report.note_start()
        made.report.note_wrong_dialect(made.first(frame))
        made.report.note_lost("the backend speaks something else", "", is_wrong=True)
    assert [line["event"] for line in logged] == [
        "backend connected",
        *["backend of another dialect, trying again"] * 2,
    ]
    assert "its first frame is other" in logged[-1]["cause"]


def test_a_lost_backend_is_logged_with_its_reason(made: Reported, logged: list[Any]) -> None:
    made.report.note_lost("the connection to the backend was lost", "exit status 1", is_wrong=False)
    assert (logged[0]["event"], logged[0]["cause"]) == ("backend lost, connecting again", "exit status 1")
    assert made.target.status.fault == "the connection to the backend was lost: exit status 1"
