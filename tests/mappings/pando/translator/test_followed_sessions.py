"""The followed sessions of one primary: how many are kept, and how few of them are looked at."""

from __future__ import annotations

import pytest

from dragoman.mappings.canonical import Event, events
from dragoman.mappings.dialect import Step
from dragoman.mappings.pando.translator import followed_sessions
from dragoman.mappings.pando.translator.followed_session import FollowedSession
from dragoman.mappings.pando.translator.followed_sessions import FollowedSessions
from dragoman.mappings.pando.wire.topics import LlmToken
from tests.step_counter import count_steps


def test_losing_the_primary_ends_nothing_without_a_turn() -> None:
    sessions, step = FollowedSessions(), Step[Event]()
    sessions.follow("s")
    sessions.lose_turns()
    sessions.current("s", step)
    assert step.bursts == []


def test_no_piece_of_text_is_added_to_a_lost_turn() -> None:
    sessions = FollowedSessions()
    sessions.follow("s").turn.take_event(events.TextDelta(text="old"), 0)
    token = LlmToken(payload=LlmToken.Payload(session_id="s", token="new"))
    assert sessions.add_text(token, 1, lambda *_piece: True)
    sessions.lose_turns()
    assert not sessions.add_text(token, 1, lambda *_piece: True)


def test_the_oldest_idle_session_is_forgotten_when_too_many_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed_sessions, "FOLLOWED_MAX", 2)
    sessions = FollowedSessions()
    sessions.follow("open").turn.begin(0)
    sessions.follow("idle")
    sessions.follow("new")
    assert list(sessions) == ["open", "new"]


def test_a_forgotten_session_is_followed_no_more_unless_its_turn_is_open() -> None:
    sessions = FollowedSessions()
    for name in ("idle", "open"):
        sessions.watch(name)
    sessions["open"].turn.begin(0)
    for name in ("idle", "open", "unknown"):
        sessions.forget(name)
    assert list(sessions) == ["open"]
    assert not sessions.is_watched("open")


class CountingSessions(FollowedSessions):
    """Followed sessions that count how often one of them is looked up."""

    looked_up = 0

    def __getitem__(self, session: str) -> FollowedSession:
        self.looked_up += 1
        return super().__getitem__(session)


def test_only_the_sessions_of_a_read_are_looked_at() -> None:
    sessions = CountingSessions()
    for number in range(100):
        sessions.follow(f"s{number}")
    sessions.take_wanting(100)
    sessions.looked_up = 0
    sessions.follow("s7").list_call.want()
    assert sessions.take_wanting(100) == ["s7"]
    assert sessions.looked_up <= 4


def test_passing_time_looks_at_no_session_at_rest() -> None:
    sessions = CountingSessions()
    for number in range(100):
        sessions.watch(f"s{number}")
    sessions.follow("s7").turn.begin(0)
    sessions.touch_active(100)
    sessions.looked_up = 0
    assert [session for session, _ in sessions.touch_active(100)] == ["s7"]
    assert sessions.looked_up == 2


def test_sessions_with_a_client_are_followed_beyond_the_limit_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed_sessions, "FOLLOWED_MAX", 2)
    sessions = FollowedSessions()
    for name in ("a", "b", "c"):
        sessions.watch(name)
    for name in ("d", "e", "f"):
        sessions.follow(name)
    assert list(sessions) == ["a", "b", "c", "e", "f"]


def test_following_a_further_session_takes_as_many_steps_however_many_have_a_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(followed_sessions, "FOLLOWED_MAX", 8)

    def follow_one_more(watched: int) -> int:
        sessions = FollowedSessions()
        for number in range(watched):
            sessions.watch(f"s{number}")
        return count_steps(lambda: sessions.follow("one more"))

    follow_one_more(10)  # fills caches
    assert follow_one_more(10) == follow_one_more(1000)
