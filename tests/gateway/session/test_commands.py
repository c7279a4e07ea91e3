"""Commands that wait for the backend: each until its answer or its deadline, not more than so many."""

from __future__ import annotations

from dragoman.gateway.session.commands import PENDING_MAX, InFlight
from dragoman.mappings.canonical.commands import CancelTurn, Compact
from dragoman.mappings.canonical.values import Text
from tests.gateway.in_memory import ManualClock
from tests.services import services


def made() -> tuple[InFlight, ManualClock, list[str]]:
    time, late = ManualClock(), list[str]()
    return InFlight(services(time), late.append), time, late


def test_a_command_waits_until_it_is_settled() -> None:
    flight, time, late = made()
    typed = (Text(text="compact"),)
    flight.add("r", Compact(), None, typed)
    waiting = flight.get("r")
    assert waiting is not None
    assert (waiting.command, waiting.link, waiting.segments) == (Compact(), None, typed)
    assert flight.settle("r") is waiting
    assert flight.get("r") is None
    assert flight.settle("r") is None
    time.passes(60)
    assert late == []
    assert time.waiting == []


def test_one_that_is_not_answered_in_time_is_told_and_still_waits_for_who_settles_it() -> None:
    flight, time, late = made()
    flight.add("r", Compact(), None, ())
    time.passes(29)
    assert late == []
    time.passes(1)
    assert late == ["r"]
    assert flight.settle("r") is not None


def test_so_many_may_wait() -> None:
    flight, _, _ = made()
    for number in range(PENDING_MAX):
        assert not flight.full
        flight.add(str(number), Compact(), None, ())
    assert flight.full
    flight.settle("0")
    assert not flight.full


def test_those_of_one_kind_are_found_oldest_first() -> None:
    flight, _, _ = made()
    flight.add("a", CancelTurn(), None, ())
    flight.add("b", Compact(), None, ())
    flight.add("c", CancelTurn(), None, ())
    assert flight.of(CancelTurn) == ["a", "c"]
    assert list(flight) == ["a", "b", "c"]


def test_they_may_be_settled_while_they_are_gone_through() -> None:
    flight, time, _ = made()
    flight.add("a", Compact(), None, ())
    flight.add("b", Compact(), None, ())
    flight.close()
    assert len(flight) == 0
    assert time.waiting == []
