"""The events of a followed session that wait until it is known whose they are."""

from __future__ import annotations

import pytest

from dragoman.mappings.canonical import events
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
