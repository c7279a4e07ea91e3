"""The followed sessions of a primary: their number is bounded, and each is asked about once at a time."""

from __future__ import annotations

import pytest

from dragoman.mappings.pando.translator import followed
from dragoman.mappings.pando.translator.followed import FollowedSessions
from dragoman.mappings.pando.translator.following import Patience


def test_the_oldest_idle_session_is_forgotten_when_too_many_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed, "FOLLOWED_MAX", 2)
    sessions = FollowedSessions(Patience())
    sessions.follow("open").begin_turn(0)
    sessions.follow("idle")
    sessions.follow("new")
    assert list(sessions) == ["open", "new"]


def test_a_session_is_not_asked_about_while_an_answer_is_missing() -> None:
    sessions = FollowedSessions(Patience())
    sessions.follow("s").wants = True
    asked = sessions.take_wanting()
    sessions.follow("s").wants = True
    assert (asked, sessions.take_wanting()) == (["s"], [])
