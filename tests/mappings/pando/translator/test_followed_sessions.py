"""The followed sessions of a primary: their number is bounded, and each is asked about once at a time."""

from __future__ import annotations

import pytest

from dragoman.mappings.pando.translator import followed_sessions
from dragoman.mappings.pando.translator.followed_session import FollowedSession, Patience
from dragoman.mappings.pando.translator.followed_sessions import FollowedSessions


def test_the_oldest_idle_session_is_forgotten_when_too_many_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed_sessions, "FOLLOWED_MAX", 2)
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


def test_a_forgotten_session_is_followed_no_more_unless_its_turn_is_open() -> None:
    sessions = FollowedSessions(Patience())
    sessions.follow("idle").watched = True
    sessions.follow("open").begin_turn(0)
    for name in ("idle", "open", "unknown"):
        sessions.forget(name)
    assert list(sessions) == ["open"]


class CountingSessions(FollowedSessions):
    """Followed sessions that count how often one of them is looked up."""

    looked_up = 0

    def __getitem__(self, session: str) -> FollowedSession:
        self.looked_up += 1
        return super().__getitem__(session)


def test_only_the_sessions_of_a_read_are_looked_at() -> None:
    sessions = CountingSessions(Patience())
    for number in range(100):
        sessions.follow(f"s{number}")
    sessions.take_wanting()
    sessions.looked_up = 0
    sessions.follow("s7").wants = True
    assert sessions.take_wanting() == ["s7"]
    assert sessions.looked_up <= 4


def test_passing_time_makes_a_session_request_its_messages() -> None:
    sessions = FollowedSessions(Patience())
    following = sessions.follow("s")
    sessions.take_wanting()
    following.wants = True
    sessions.touch_all()
    assert sessions.take_wanting() == ["s"]
