"""The calls to a primary: each is written under an id of its own, and times out."""

from __future__ import annotations

from itertools import count

from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.commands import ListSessions, Ping
from dragoman.mappings.dialect import Step
from dragoman.mappings.pando.translator.calls import CALL_MAX, PrimaryCalls
from dragoman.mappings.rfc3339 import NS


def test_a_call_is_written_and_waits_under_its_own_id() -> None:
    numbers = count(1)
    calls = PrimaryCalls(lambda: 0, lambda: str(next(numbers)))
    step: Step[Event] = Step()
    calls.ask(step, ListSessions(), "sessions")
    assert list(calls) == ["req-1"]
    assert b"req-1" in b"".join(step.frames)


def test_only_calls_that_waited_too_long_are_overdue() -> None:
    now, numbers = [0], count(1)
    calls = PrimaryCalls(lambda: now[0], lambda: str(next(numbers)))
    step: Step[Event] = Step()
    calls.ask(step, Ping(), "alive")
    now[0] = 1
    calls.ask(step, Ping(), "alive")
    assert calls.overdue(int(CALL_MAX * NS)) == ["req-1"]
