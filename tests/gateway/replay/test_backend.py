"""A recording as the backend of a session, on a clock that the test controls."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec import UNSET, Raw

from dragoman.gateway.replay.backend import AHEAD_MAX
from dragoman.mappings.canonical.commands import (
    AnswerApproval,
    AnswerInteraction,
    CancelTurn,
    GetHistory,
    GetSession,
    InjectNote,
    ListCompletions,
    ListSessions,
    OpenSession,
    PauseTurn,
    ResumeSession,
    ResumeTurn,
    ShutdownBackend,
)
from dragoman.mappings.canonical.events import (
    Alert,
    ApprovalRequested,
    ApprovalResolved,
    CompletionsListed,
    ErrorReported,
    HistorySnapshot,
    InteractionInvalid,
    InteractionRequired,
    InteractionResolved,
    MessageAppended,
    ModelTurnStarted,
    Reply,
    SessionOpened,
    StatusChanged,
    TextDelta,
    ToolCallFinished,
    TurnAccepted,
    TurnEnded,
    TurnResult,
)
from dragoman.mappings.canonical.values import Failure, FieldError, Message
from tests.gateway.replay.recording_builder import SESSION, RecordingBuilder, WatchedReplay, said, types

ASKED = ApprovalRequested(tool="refund", description="42 EUR", question="q1")
RESOLVED = ApprovalResolved(approved=True, question="q1")
TURN = ["TurnAccepted", "StatusChanged", "TextDelta", "TurnResult", "TurnEnded"]


def texts(events: list[Any]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def end(events: list[Any]) -> TurnEnded:
    (found,) = [event for event in events if isinstance(event, TurnEnded)]
    return found


def failure(events: list[Any]) -> str:
    (reply,) = [event for event in events if isinstance(event, Reply)]
    assert reply.failure is not None
    return reply.failure.text


# -- inputs --------------------------------------------------------------------------------------------


def test_an_input_gets_its_recorded_answer_under_its_own_request_id(tmp_path: Path) -> None:
    watched = WatchedReplay(
        RecordingBuilder().turn("one", TextDelta(text="1")).turn("two", TextDelta(text="2")).plan(tmp_path)
    )
    first = watched.asks(said("one", request="a"))
    assert types(first) == TURN
    assert first[0] == TurnAccepted(request="a")
    second = watched.asks(said("two", request="b"))
    assert (texts(first), texts(second), second[0].request) == ("1", "2", "b")


def test_an_input_that_is_not_recorded_is_refused_with_the_reason(tmp_path: Path) -> None:
    watched = WatchedReplay(RecordingBuilder().turn("one").plan(tmp_path))
    assert failure(watched.asks(said("something else"))) == "replay: the recording has no similar input"
    watched.asks(said("one"))
    assert failure(watched.asks(said("one"))) == "replay: the recorded turn of this input was played already"
    assert watched.ledger.counters == {"replay_not_recorded": 1, "replay_exact": 1, "replay_used": 1}


def test_an_input_that_was_refused_is_refused_again(tmp_path: Path) -> None:
    watched = WatchedReplay(RecordingBuilder().refused("one", Failure(cause="busy", text="compacting")).plan(tmp_path))
    assert failure(watched.asks(said("one"))) == "compacting"
    assert types(watched.events) == ["Reply"], "its turn does not fail, because there is none"


def test_while_a_turn_is_played_another_input_is_refused(tmp_path: Path) -> None:
    tape = RecordingBuilder().turn("one", TextDelta(text="1"), end=None).at(5000).ends().turn("two")
    watched = WatchedReplay(tape.plan(tmp_path), speed=1.0)
    watched.asks(said("one"))
    assert failure(watched.asks(said("two"))) == "a turn of the recording is being played"


def test_late_events_after_a_turn_are_replayed_before_the_next_input(tmp_path: Path) -> None:
    late = Alert(level="warn", source="pod", text="late")
    tape = RecordingBuilder().turn("one").at(60_000).sends(late).at(61_000).turn("two", TextDelta(text="2"))
    watched = WatchedReplay(tape.plan(tmp_path), speed=1.0)
    watched.asks(said("one"))
    events = watched.asks(said("two"))
    assert events[0] == late
    assert types(events[1:]) == TURN


def test_a_turn_without_a_recorded_end_fails_with_that_reason(tmp_path: Path) -> None:
    watched = WatchedReplay(RecordingBuilder().turn("one", TextDelta(text="1"), end=None).plan(tmp_path))
    failed = end(watched.asks(said("one")))
    assert failed.failure is not None
    assert (failed.end, failed.failure.text) == ("failed", "the recording ends in the middle of this turn")


def test_an_input_whose_acceptance_is_not_recorded_is_accepted_and_fails(tmp_path: Path) -> None:
    watched = WatchedReplay(RecordingBuilder().asks(said("one")).plan(tmp_path))
    assert types(watched.asks(said("one"))) == ["TurnAccepted", "TurnEnded"]


# -- time ------------------------------------------------------------------------------------------------


def test_events_keep_their_recorded_times(tmp_path: Path) -> None:
    tape = (
        RecordingBuilder().turn("one", end=None).at(1000).sends(TextDelta(text="1")).at(3000).sends(TextDelta(text="2"))
    )
    watched = WatchedReplay(tape.ends().plan(tmp_path), speed=1.0)
    assert texts(watched.asks(said("one"))) == ""
    assert texts(watched.news(after=0.9)) == ""
    assert texts(watched.news(after=0.2)) == "1"
    assert texts(watched.news(after=1.8)) == ""
    assert texts(watched.news(after=0.2)) == "2"


@pytest.mark.parametrize(("speed", "cap", "seconds"), [(2.0, None, 5.0), (1.0, 0.5, 0.5), (2.0, 0.5, 0.25)])
def test_pauses_are_shortened_as_configured(tmp_path: Path, speed: float, cap: float | None, seconds: float) -> None:
    tape = RecordingBuilder().turn("one", end=None).at(10_000).sends(TextDelta(text="1"))
    watched = WatchedReplay(tape.ends().plan(tmp_path), speed=speed, idle_cap=cap)
    watched.asks(said("one"))
    assert texts(watched.news(after=seconds - 0.01)) == ""
    assert texts(watched.news(after=0.02)) == "1"


def test_a_long_turn_without_pauses_is_sent_in_pieces(tmp_path: Path) -> None:
    deltas = [TextDelta(text=f"{n} ") for n in range(2000)]
    watched = WatchedReplay(RecordingBuilder().turn("one", *deltas).plan(tmp_path))
    watched.backend.send([said("one")])
    assert 0 < len(watched.events) < 2000
    assert texts(watched.news()) == "".join(f"{n} " for n in range(2000))


def test_events_that_are_left_out_count_for_the_length_of_a_piece(tmp_path: Path) -> None:
    left_out = [ModelTurnStarted()] * 2000
    watched = WatchedReplay(RecordingBuilder().turn("one", *left_out, TextDelta(text="1")).plan(tmp_path), tells=False)
    watched.backend.send([said("one")])
    assert texts(watched.events) == ""
    assert texts(watched.news()) == "1"


def test_a_stopped_replay_sends_nothing_more(tmp_path: Path) -> None:
    tape = RecordingBuilder().turn("one", end=None).at(1000).sends(TextDelta(text="1")).ends()
    watched = WatchedReplay(tape.plan(tmp_path), speed=1.0)
    watched.asks(said("one"))
    watched.backend.suspend()
    watched.backend.stop()
    assert watched.news(after=10) == []


# -- how it begins -----------------------------------------------------------------------------------------


def test_the_recorded_history_is_sent_at_the_start(tmp_path: Path) -> None:
    history = HistorySnapshot(items=(Message(role="user", text="before"),))
    tape = RecordingBuilder().at(800).sends(history).at(900).turn("one")
    watched = WatchedReplay(tape.plan(tmp_path), speed=1.0)
    watched.backend.start()
    watched.backend.start()
    assert watched.events == [history]


def test_a_turn_begun_by_the_backend_comes_at_its_recorded_time(tmp_path: Path) -> None:
    tape = RecordingBuilder().sends(Alert(level="warn", source="pod", text="first"))
    tape.begins().at(2000).sends(TextDelta(text="by itself")).ends()
    watched = WatchedReplay(tape.plan(tmp_path), speed=1.0)
    watched.backend.start()
    assert types(watched.news()) == ["Alert"]
    assert types(watched.news(after=2.1)) == ["TextDelta", "TurnResult", "TurnEnded"]


# -- commands in the middle of a turn -------------------------------------------------------------------------


def cancelled() -> RecordingBuilder:
    tape = RecordingBuilder().turn("one", end=None).at(1000).sends(TextDelta(text="1"))
    tape.at(5000).asks(CancelTurn(), Reply(request=""))
    return tape.at(5100).sends(TextDelta(text="2")).ends("cancelled")


def test_a_replay_waits_where_a_cancel_was_recorded_and_continues_with_its_effects(tmp_path: Path) -> None:
    watched = WatchedReplay(cancelled().plan(tmp_path))
    assert types(watched.asks(said("one"))) == ["TurnAccepted", "StatusChanged", "TextDelta"]
    assert watched.news(after=60) == []
    events = watched.asks(CancelTurn(request="c"))
    assert events[0] == Reply(request="c")
    assert (texts(events), end(events).end) == ("2", "cancelled")


def test_an_early_cancel_is_accepted_after_the_events_recorded_before_it(tmp_path: Path) -> None:
    watched = WatchedReplay(cancelled().plan(tmp_path), speed=1.0)
    watched.backend.send([said("one")])
    events = watched.asks(CancelTurn(request="c"))
    assert texts(events) == "1", "at once"
    assert types(watched.news(after=0.2)) == ["TextDelta", "TurnResult", "TurnEnded"]


def test_a_command_that_is_not_recorded_in_this_turn_is_refused(tmp_path: Path) -> None:
    watched = WatchedReplay(RecordingBuilder().turn("one", end=None).at(9000).ends().plan(tmp_path), speed=1.0)
    watched.asks(said("one"))
    assert failure(watched.asks(CancelTurn())) == "replay: the recording has no such command at this point"
    assert failure(watched.asks(InjectNote(text="?"))) == "replay: the recording has no such command at this point"


def test_a_command_is_compared_with_the_next_recorded_ones_of_its_turn_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = RecordingBuilder().turn("one", end=None)
    for _ in range(AHEAD_MAX + 10):
        recording.asks(PauseTurn(request=""), Reply(request=""))
    watched = WatchedReplay(recording.ends().plan(tmp_path))
    watched.asks(said("one"))
    compare = Mock(return_value=False)
    monkeypatch.setattr("dragoman.gateway.replay.backend.is_same_command", compare)
    watched.asks(CancelTurn(request="c"))
    assert compare.call_count == AHEAD_MAX


def test_a_paused_turn_is_resumed(tmp_path: Path) -> None:
    tape = (
        RecordingBuilder()
        .turn("one", TextDelta(text="1"), end=None)
        .asks(PauseTurn(), Reply(request=""))
        .ends("paused")
    )
    tape.asks(ResumeTurn(), Reply(request="")).begins()
    watched = WatchedReplay(tape.sends(StatusChanged(status="running"), TextDelta(text="2")).ends().plan(tmp_path))
    watched.asks(said("one"))
    assert end(watched.asks(PauseTurn())).end == "paused"
    events = watched.asks(ResumeTurn())
    assert (texts(events), end(events).end) == ("2", "completed")


# -- questions -------------------------------------------------------------------------------------------------


def question(*, approved: bool = True) -> RecordingBuilder:
    tape = (
        RecordingBuilder()
        .turn("one", ASKED, end=None)
        .asks(AnswerApproval(approved=approved, question="q1"), Reply(request=""))
    )
    return tape.sends(ApprovalResolved(approved=approved, question="q1"), ToolCallFinished(call="c")).ends()


def test_a_question_is_asked_again_and_waits_for_its_answer(tmp_path: Path) -> None:
    watched = WatchedReplay(question().plan(tmp_path))
    assert watched.asks(said("one"))[-1] == ASKED
    assert watched.news(after=100) == []
    events = watched.asks(AnswerApproval(request="a", approved=True, question="q1"))
    assert types(events) == ["Reply", "ToolCallFinished", "TurnResult", "TurnEnded"], "the session says what came of it"


def test_an_answer_that_differs_from_the_recorded_one_fails_the_turn_with_that_reason(tmp_path: Path) -> None:
    watched = WatchedReplay(question().turn("two").plan(tmp_path))
    watched.asks(said("one"))
    events = watched.asks(AnswerApproval(request="a", approved=False, question="q1"))
    assert types(events) == ["Reply", "TurnEnded"]
    assert events[1].failure.text == "replay: the recording continues only after the recorded answer"
    assert watched.reports[-1].outcome == "another_answer"
    assert types(watched.asks(said("two"))) == ["TurnAccepted", "StatusChanged", "TurnResult", "TurnEnded"]


def test_an_answer_matches_only_its_own_question(tmp_path: Path) -> None:
    """A recorded "no" to the second question does not answer the first."""
    second = ApprovalRequested(tool="t", description="d", question="q2")
    tape = (
        RecordingBuilder()
        .turn("one", ASKED, end=None)
        .asks(AnswerApproval(approved=True, question="q1"), Reply(request=""))
    )
    tape.sends(RESOLVED, second).asks(AnswerApproval(approved=False, question="q2"), Reply(request=""))
    watched = WatchedReplay(tape.sends(ApprovalResolved(approved=False, question="q2")).ends().plan(tmp_path))
    watched.asks(said("one"))
    assert end(watched.asks(AnswerApproval(approved=False, question="q1"))).end == "failed"


def test_a_question_that_the_backend_closed_is_closed_again(tmp_path: Path) -> None:
    closed = ApprovalResolved(approved=False)
    watched = WatchedReplay(RecordingBuilder().turn("one", ASKED, closed, TextDelta(text="1")).plan(tmp_path))
    assert watched.asks(said("one"))[2:5] == [ASKED, closed, TextDelta(text="1")]


def test_a_form_that_was_first_refused_is_refused_again_and_then_accepted(tmp_path: Path) -> None:
    form = InteractionRequired(question="f", kind="identity", spec=Raw(b"{}"), reason="who")
    wrong = AnswerInteraction(question="f", values=Raw(b'{"name":""}'))
    right = AnswerInteraction(question="f", values=Raw(b'{"name":"Ann"}'))
    errors = (FieldError(field="name", text="missing"),)
    invalid = InteractionInvalid(question="f", kind="identity", errors=errors, text="no")
    tape = RecordingBuilder().turn("one", form, end=None).asks(wrong, invalid).asks(right, Reply(request=""))
    watched = WatchedReplay(tape.sends(InteractionResolved(question="f"), TextDelta(text="1")).ends().plan(tmp_path))
    watched.asks(said("one"))
    (refused,) = watched.asks(AnswerInteraction(request="a", question="f", values=Raw(b'{"name":""}')))
    assert (refused.errors, refused.request) == (errors, "a")
    events = watched.asks(AnswerInteraction(request="b", question="f", values=Raw(b'{ "name": "Ann" }')))
    assert (events[0], texts(events)) == (Reply(request="b"), "1")


# -- what concerns no turn -----------------------------------------------------------------------------------------


def test_opening_or_resuming_any_session_gives_the_recorded_conversation(tmp_path: Path) -> None:
    watched = WatchedReplay(RecordingBuilder().plan(tmp_path))
    for command in (OpenSession(request="a", agent="x"), ResumeSession(request="a", session="any", agent="x")):
        (opened,) = watched.asks(command)
        assert opened == SessionOpened(request="a", session=watched.state.id, agent="x", ext={})
    (found,) = watched.asks(GetSession(request="b", session=f"thread-{SESSION}"))
    assert isinstance(found, SessionOpened)
    assert failure(watched.asks(GetSession(session="unknown"))) == "session 'unknown' not found"


def test_a_shutdown_needs_no_recording(tmp_path: Path) -> None:
    assert WatchedReplay(RecordingBuilder().plan(tmp_path)).asks(ShutdownBackend(request="a")) == [Reply(request="a")]


def test_a_history_request_is_answered_from_the_replaying_session(tmp_path: Path) -> None:
    watched = WatchedReplay(RecordingBuilder().plan(tmp_path))
    watched.state.transcript = [Message(role="user", text="one", id="m1")]
    (page,) = watched.asks(GetHistory(request="a"))
    assert page == HistorySnapshot(request="a", items=(Message(role="user", text="one", id="m1"),))
    assert failure(watched.asks(GetHistory(cursor="nobody"))) == "unknown cursor 'nobody'"
    (listed,) = watched.asks(ListSessions(request="b"))
    assert listed.sessions == ()


def test_other_recorded_requests_get_their_recorded_answers(tmp_path: Path) -> None:
    listed = CompletionsListed(kind="file", entries=())
    plan = (
        RecordingBuilder()
        .asks(ListCompletions(kind="file", prefix="a"), listed)
        .asks(InjectNote(text="n"))
        .plan(tmp_path)
    )
    watched = WatchedReplay(plan)
    assert watched.asks(ListCompletions(request="x", kind="file", prefix="a")) == [
        CompletionsListed(request="x", kind="file", entries=())
    ]
    assert watched.asks(InjectNote(request="y", text="n")) == [Reply(request="y", result=UNSET)]


# -- by itself --------------------------------------------------------------------------------------------------------


def test_autoplay_continues_from_one_turn_to_the_next(tmp_path: Path) -> None:
    tape = RecordingBuilder().turn("one", TextDelta(text="1"))
    tape.at(1000).turn("two", ASKED, end=None).asks(AnswerApproval(approved=True), Reply(request=""))
    tape.sends(RESOLVED, TextDelta(text="2")).ends()
    tape.turn("three", TextDelta(text="3"), end=None).asks(CancelTurn()).ends("cancelled")
    watched = WatchedReplay(tape.plan(tmp_path), auto=True)
    watched.backend.start()
    events = watched.news(after=1)
    inputs = [event.message.text for event in events if isinstance(event, MessageAppended)]
    assert inputs == ["one", "two", "three"]
    assert (texts(events), RESOLVED in events) == ("123", True)
    assert [event.end for event in events if isinstance(event, TurnEnded)] == ["completed", "completed", "cancelled"]
    assert "TurnAccepted" not in types(events)


def test_autoplay_shows_the_failure_of_a_turn_without_content_once(tmp_path: Path) -> None:
    error = ErrorReported(cause="internal", text="boom")
    failed = RecordingBuilder().turn("one", error, end="failed", failure=Failure(cause="internal", text="boom"))
    watched = WatchedReplay(failed.plan(tmp_path), auto=True)
    watched.backend.start()
    shown = types(watched.news(after=1))
    assert shown == ["MessageAppended", "StatusChanged", "ErrorReported", "TurnResult", "StatusChanged"]


def test_autoplay_keeps_the_pauses_between_turns(tmp_path: Path) -> None:
    tape = RecordingBuilder().turn("one", TextDelta(text="1")).at(5000).turn("two", TextDelta(text="2"))
    watched = WatchedReplay(tape.plan(tmp_path), auto=True, speed=1.0)
    watched.backend.start()
    assert texts(watched.news(after=4.9)) == "1"
    assert texts(watched.news(after=0.2)) == "2"


def test_autoplay_accepts_no_commands(tmp_path: Path) -> None:
    watched = WatchedReplay(RecordingBuilder().turn("one").plan(tmp_path), auto=True)
    words = "replay: this replay plays by itself and takes no commands"
    assert failure(watched.asks(said("one"))) == words
    assert failure(watched.asks(AnswerApproval(approved=True))) == words


def test_the_output_of_a_turn_comes_before_its_end(tmp_path: Path) -> None:
    watched = WatchedReplay(RecordingBuilder().turn("one").plan(tmp_path))
    assert watched.asks(said("one"))[-2:] == [TurnResult(end="completed"), TurnEnded(end="completed")]
