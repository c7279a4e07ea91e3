"""Events of the log that a replay repeats, and those that the session adds itself."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.gateway.recording.format import EventLine
from dragoman.gateway.replay.replayed_events import ReplayedEvents
from dragoman.mappings.canonical import Event, SessionState
from dragoman.mappings.canonical.commands import AnswerApproval
from dragoman.mappings.canonical.events import (
    ApprovalResolved,
    MessageAppended,
    ModelTurnEnded,
    ModelTurnStarted,
    QuestionAnswered,
    QuestionAsked,
    SessionUpdated,
    StatusChanged,
    TextDelta,
    TurnAccepted,
    TurnEnded,
    TurnResult,
)
from dragoman.mappings.canonical.values import Message, SessionSummary
from tests.gateway.replay.recording_builder import said

STATE = SessionState(id="own", title="known")


def lines(*, tells: bool = True, auto: bool = False) -> ReplayedEvents:
    return ReplayedEvents(STATE, sends_model_turns=tells, auto=auto)


def say(log: ReplayedEvents, *events: Any, turn: str = "t") -> list[Event]:
    told: list[Event] = []
    for event in events:
        told += log.select(EventLine(seq=1, t=0, cursor="1:0", event=event, turn=turn))
    return told


def user(text: str) -> MessageAppended:
    return MessageAppended(message=Message(role="user", text=text, id="old", turn="t"))


def test_a_further_acceptance_is_left_out_because_the_session_adds_it() -> None:
    log = lines()
    log.begin_part(said("one"))
    say(log, TurnAccepted(request="theirs"), user("one"))
    assert say(log, TurnAccepted(request="theirs")) == []


def test_messages_of_others_are_replayed_without_their_old_ids() -> None:
    assert say(lines(), user("from elsewhere"), turn="") == [
        MessageAppended(message=Message(role="user", text="from elsewhere"))
    ]


def test_autoplay_has_no_acceptance_and_keeps_the_message() -> None:
    log = lines(auto=True)
    log.begin_part(None)
    assert say(log, TurnAccepted(request="theirs"), user("one")) == [
        MessageAppended(message=Message(role="user", text="one"))
    ]


@pytest.mark.parametrize("event", [QuestionAsked(text="?"), QuestionAnswered()])
def test_questions_in_words_are_left_out_because_the_session_adds_them(event: Event) -> None:
    assert say(lines(), event) == []


def test_the_resolution_of_a_question_is_left_out_once_if_a_client_answered_it() -> None:
    log, resolved = lines(), ApprovalResolved(approved=True, question="q")
    log.begin_part(AnswerApproval(approved=True))
    assert say(log, resolved, resolved) == [resolved]
    log.begin_part(said("one"))
    assert say(log, resolved) == [resolved]


def test_the_status_beside_a_terminal_is_left_out_and_others_are_replayed() -> None:
    idle, running = StatusChanged(status="idle"), StatusChanged(status="running")
    assert say(lines(), running, idle) == [running]
    assert say(lines(), idle, turn="") == [idle]


def test_a_terminal_is_replayed_without_its_old_message_id_and_ends_the_turn() -> None:
    log = lines()
    say(log, TextDelta(text="a"))
    assert log.turn == "t"
    assert say(log, TurnEnded(end="completed", text="a", message="old")) == [TurnEnded(end="completed", text="a")]
    assert log.turn == ""


def test_a_recording_without_model_turns_gets_one_per_run_if_the_session_needs_them() -> None:
    log = ReplayedEvents(STATE, sends_model_turns=True, adds_model_turns=True)
    log.begin_part(said("one", request="mine"))
    told = say(log, TurnAccepted(request="theirs"), user("one"), TextDelta(text="a"))
    assert told == [TurnAccepted(request="mine"), ModelTurnStarted(), TextDelta(text="a")]
    log.begin_part(AnswerApproval(approved=True))
    told = say(log, ApprovalResolved(approved=True), TextDelta(text="b"), TurnResult(end="completed"))
    assert told == [ModelTurnStarted(), TextDelta(text="b"), TurnResult(end="completed")], "the session says its end"


def test_model_turn_numbers_that_do_not_grow_are_left_out() -> None:
    """Turns played in another order than recorded make all later numbers wrong."""
    first, second, third = (ModelTurnStarted(index=index) for index in (0, 1, 2))
    assert say(lines(), second, first, third) == [second, ModelTurnStarted(), ModelTurnStarted()]


def test_model_turn_numbers_are_left_out_if_a_live_backend_counts_too() -> None:
    log = ReplayedEvents(STATE, sends_model_turns=True, keeps_counts=False)
    assert say(log, ModelTurnStarted(index=0), ModelTurnEnded(index=0)) == [ModelTurnStarted(), ModelTurnEnded()]


def test_a_recorded_new_title_is_set_on_this_session() -> None:
    titled = SessionUpdated(session=SessionSummary(session="recorded", title="new"))
    assert say(lines(), titled) == [SessionUpdated(session=SessionSummary(session="own", title="new"))]
    assert say(lines(), SessionUpdated(session=SessionSummary(session="recorded", title="known"))) == []
