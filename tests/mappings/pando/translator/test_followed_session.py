"""The events of a followed session that wait until it is known whose they are."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.mappings.canonical import Event, events
from dragoman.mappings.canonical.values import Message
from dragoman.mappings.dialect import Burst, Step
from dragoman.mappings.pando.translator import followed_session
from dragoman.mappings.pando.translator.followed_session import FollowedSession
from dragoman.mappings.pando.translator.output import LatestCall


def test_the_events_that_wait_for_the_answer_to_an_input_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed_session, "HELD_MAX", 2)
    session = FollowedSession(LatestCall())
    session.note_input("hi")
    token = events.TextDelta(text="Hel")
    assert [session.hold_event(Burst(items=[token]), token, 0) for _ in range(3)] == [True, True, False]


def test_the_ends_of_runs_among_them_are_bounded_and_those_that_were_passed_on_do_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(followed_session, "ENDS_MAX", 2)
    session = FollowedSession(LatestCall())
    session.note_input("hi")
    said: list[Event] = [events.TextDelta(text="Hel"), events.TurnEnded(end="completed", text="Hel", message="")] * 3

    def hold() -> list[bool]:
        return [session.hold_event(Burst(items=[event]), event, 0) for event in said]

    assert hold() == [True] * 4 + [False] * 2
    session.held.take_all()
    assert hold() == [True] * 4 + [False] * 2


ROWS = (
    Message(role="user", text="failed", id="a"),
    Message(role="assistant", text="its answer", id="b"),
    Message(role="user", text="new", id="c"),
)
BEGINNING = (events.MessageAppended(message=ROWS[2]), events.ModelTurnStarted(), events.TextDelta(text="Hel"))


@pytest.mark.parametrize("published", range(1, 4))
@pytest.mark.parametrize("stored", [ROWS, ROWS[:2]], ids=["after the input was stored", "before"])
def test_a_history_that_comes_while_an_input_waits_ends_before_this_input(
    published: int, stored: tuple[Message, ...]
) -> None:
    session = FollowedSession(LatestCall())
    session.note_input("new")
    assert all(session.hold_event(Burst(items=[event]), event, 0) for event in BEGINNING[:published])
    assert session.history(stored).items == ROWS[:2]


def test_a_history_ends_before_an_input_that_was_published_without_its_id() -> None:
    session = FollowedSession(LatestCall())
    session.note_input("new")
    for event in (events.MessageAppended(message=replace(ROWS[2], id="")), *BEGINNING[1:]):
        assert session.hold_event(Burst(items=[event]), event, 0)
    assert session.history(ROWS).items == ROWS[:2]


def test_the_run_of_another_client_is_told_once_if_it_begins_while_an_input_is_refused() -> None:
    session, step = FollowedSession(LatestCall()), Step[Event]()
    session.note_input("ours")
    assert all(session.hold_event(Burst(items=[event]), event, 0) for event in BEGINNING)
    session.known.forget_input("ours")
    session.note_answer(0)
    session.release_held(0, step)
    assert [burst.items for burst in step.bursts] == [[event] for event in BEGINNING]
    assert not session.list_call.wanted
