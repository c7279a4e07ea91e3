"""The events of a followed session that wait until it is known whose they are."""

from __future__ import annotations

import pytest

from dragoman.mappings.canonical import Event, events
from dragoman.mappings.dialect import Burst
from dragoman.mappings.pando.translator import held_events
from dragoman.mappings.pando.translator.followed_session import FollowedSession
from dragoman.mappings.pando.translator.output import LatestCall


def test_the_events_that_wait_for_the_answer_to_an_input_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_events, "HELD_MAX", 2)
    session = FollowedSession(LatestCall())
    session.note_input("hi")
    token = events.TextDelta(text="Hel")
    assert [session.hold_event(Burst(items=[token]), token, 0) for _ in range(3)] == [True, True, False]


def test_the_ends_of_runs_among_them_are_bounded_and_those_that_were_passed_on_do_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(held_events, "ENDS_MAX", 2)
    session = FollowedSession(LatestCall())
    session.note_input("hi")
    said: list[Event] = [events.TextDelta(text="Hel"), events.TurnEnded(end="completed", text="Hel", message="")] * 3

    def hold() -> list[bool]:
        return [session.hold_event(Burst(items=[event]), event, 0) for event in said]

    assert hold() == [True] * 4 + [False] * 2
    session.held.take_all()
    assert hold() == [True] * 4 + [False] * 2
