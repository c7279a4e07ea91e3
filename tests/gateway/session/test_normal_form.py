"""The normal form of a turn: whatever a backend sends or omits, its clients see a whole turn with one end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from dragoman.gateway.session.normal_form import Given
from dragoman.gateway.session.turn_states import TurnState
from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.events import (
    ApprovalRequested,
    ApprovalResolved,
    ErrorReported,
    HistorySnapshot,
    InteractionRequired,
    InteractionResolved,
    MessageAppended,
    ModelTurnEnded,
    ModelTurnStarted,
    OtpRequired,
    OtpSent,
    Preamble,
    QuestionAnswered,
    QuestionAsked,
    ReasoningDelta,
    ReasoningDone,
    ReasoningStarted,
    RunStarted,
    StatusChanged,
    TextDelta,
    TextDone,
    ToolCallArguments,
    ToolCallFinished,
    ToolCallStarted,
    TurnAccepted,
    TurnEnded,
    TurnResult,
    UsageReported,
)
from dragoman.mappings.canonical.values import Failure, Message, Origin, Text, Usage
from tests.gateway.session.hand_fed import OURS, Session, kinds


def test_an_accepted_input_opens_its_turn_with_the_users_message_once() -> None:
    session = Session()
    assert kinds(session.accept()) == ["TurnAccepted", "MessageAppended", "StatusChanged"]
    assert session.feed(StatusChanged(status="running")) == []
    assert session.runs[0].origin == OURS
    assert [m.text for m in session.state.messages()] == ["hi"]


def test_a_pod_turn_ends_by_its_status_with_the_result_before_it() -> None:
    session = Session()
    session.accept()
    said = session.feed(
        TextDelta(text="a"),
        TextDelta(text="b"),
        TextDone(text="ab"),
        TurnResult(end="completed"),
        StatusChanged(status="idle"),
    )
    assert kinds(said) == ["TextDelta", "TextDelta", "TextDone", "TurnResult", "StatusChanged", "TurnEnded"]
    end = said[-1]
    assert isinstance(end, TurnEnded)
    assert (end.end, end.text, end.failure) == ("completed", "ab", None)
    assert [m.text for m in session.state.messages()] == ["hi", "ab"]
    assert session.state.messages()[-1].id == end.message


@pytest.mark.parametrize(
    "event",
    [
        RunStarted(kind="notify"),
        StatusChanged(status="running"),
        MessageAppended(message=Message(role="system", text="note")),
        HistorySnapshot(items=(), rotated=True),
        ErrorReported(cause="internal", text="late"),
    ],
    ids=lambda event: type(event).__name__,
)
def test_log_lane_items_status_and_errors_open_no_turn(event: Event) -> None:
    session = Session()
    session.feed(event)
    assert session.state.turn is None
    assert all(run.turn == "" for run in session.runs)


def test_a_contradicting_terminal_closes_the_open_block_with_its_text() -> None:
    session = Session()
    session.accept()
    said = session.feed(TextDelta(text="world"), TurnEnded(end="completed", text="hello world", message="m9"))
    assert kinds(said) == ["TextDelta", "Gap", "TextDone", "TurnResult", "StatusChanged", "TurnEnded"]
    assert said[2] == TextDone(text="hello world")
    assert said[-1] == TurnEnded(end="completed", text="hello world", message="m9")
    assert [m.text for m in session.state.messages()] == ["hi", "hello world"]


@pytest.mark.parametrize(
    ("streamed", "final", "kept"),
    [
        (("world", "two"), "hello worldtwo", ["hello world", "two"]),
        (("one", "two"), "two", ["two"]),
        (("one", "two"), "onetwenty", ["one", "twenty"]),
        (("one", "two"), "one and two", ["one", " and two"]),
        (("one", "two"), "three", ["three"]),
    ],
)
def test_a_terminal_corrects_contradicting_blocks(streamed: tuple[str, str], final: str, kept: list[str]) -> None:
    session = Session()
    first, second = streamed
    call = (ToolCallStarted(call="c", name="ls"), ToolCallFinished(call="c", output="x"))
    session.feed(TextDelta(text=first), TextDone(text=first), *call, TextDelta(text=second), TextDone(text=second))
    session.feed(TurnEnded(end="completed", text=final))
    assert [item.text for item in session.state.transcript if isinstance(item, Message)] == kept


def test_a_terminal_with_only_the_end_of_the_streamed_text_is_no_contradiction() -> None:
    """The real smooth server in Python ends a turn with the text of its last model call, and dragoman puts a line
    about lost context before the first answer.
    """
    session = Session()
    session.accept()
    call = (ToolCallStarted(call="c", name="ls"), ToolCallFinished(call="c", output="x"))
    said = session.feed(
        TextDelta(text="Let me look. "),
        *call,
        TextDelta(text="It is here."),
        TurnEnded(end="completed", text="It is here."),
    )
    assert "Gap" not in kinds(said)
    assert [event.text for event in said if isinstance(event, TextDone)] == ["Let me look. ", "It is here."]
    said = session.feed(TextDelta(text="[context lost]\nHello"), TurnEnded(end="completed", text="Hello"))
    assert "Gap" not in kinds(said)
    assert session.state.messages()[-1].text == "Hello"


def test_a_terminal_with_more_text_sends_the_rest_as_a_delta() -> None:
    session = Session()
    session.accept()
    said = session.feed(TextDelta(text="He"), TurnEnded(end="completed", text="Hello", message="m9"))
    assert kinds(said) == ["TextDelta", "TextDelta", "TextDone", "TurnResult", "StatusChanged", "TurnEnded"]
    assert said[-1] == TurnEnded(end="completed", text="Hello", message="m9")


def test_open_blocks_are_closed_before_the_turn() -> None:
    session = Session()
    session.accept()
    session.feed(ReasoningDelta(text="hm"), TextDelta(text="a"), ToolCallStarted(call="c", name="grep"))
    session.feed(ToolCallArguments(call="c", json='{"a'), ToolCallArguments(call="c", json='":1}'))
    said = session.feed(TurnResult(end="cancelled"), StatusChanged(status="idle"))
    assert said[0] == ToolCallArguments(call="c", name="grep", json='{"a":1}', done=True)
    assert kinds(said[1:]) == ["TurnResult", "StatusChanged", "TurnEnded"]


def test_a_result_after_a_resume_has_the_name_of_its_tool() -> None:
    session = Session()
    session.accept()
    session.feed(ToolCallStarted(call="c", name="grep"), TurnResult(end="paused"), StatusChanged(status="paused"))
    said = session.feed(StatusChanged(status="running"), ToolCallFinished(call="c", output="37"))
    assert said[-1] == ToolCallFinished(call="c", name="grep", output="37")


@pytest.mark.parametrize(
    ("events", "end"),
    [
        ((TurnResult(end="completed"), StatusChanged(status="idle")), "completed"),
        ((TurnResult(end="limit_reached"), StatusChanged(status="idle")), "limit_reached"),
        ((TurnResult(end="paused"), StatusChanged(status="paused")), "paused"),
        ((TurnResult(end="rolled_back"), StatusChanged(status="idle")), "rolled_back"),
        ((TurnResult(end="cancelled"), StatusChanged(status="idle")), "cancelled"),
        ((ErrorReported(cause="model_failed", text="x"), StatusChanged(status="idle")), "failed"),
        (
            (ErrorReported(cause="model_failed", text="x"), TurnResult(end="completed"), StatusChanged(status="idle")),
            "completed",
        ),
        ((StatusChanged(status="idle"),), "completed"),
    ],
)
def test_the_end_of_a_pod_turn_is_decided_by_the_events_before_its_status(events: tuple[Event, ...], end: str) -> None:
    session = Session()
    session.accept()
    said = session.feed(TextDelta(text="x"), *events)
    ends = [event for event in said if isinstance(event, TurnEnded)]
    assert [event.end for event in ends] == [end]
    assert (ends[0].failure == Failure(cause="model_failed", text="x")) == (end == "failed")
    assert kinds(said).count("TurnResult") == 1


def test_a_failure_without_a_cause_is_given_one() -> None:
    session = Session()
    session.accept()
    said = session.feed(TextDelta(text="x"), TurnEnded(end="failed"))
    (error,) = [event for event in said if isinstance(event, ErrorReported)]
    assert error == ErrorReported(cause="internal", text="the turn failed")
    assert isinstance(said[-1], TurnEnded)
    assert said[-1].failure == Failure(cause=error.cause, text=error.text)


def test_a_rolled_back_turn_takes_the_users_message_out_of_the_transcript() -> None:
    session = Session()
    session.accept("first")
    session.feed(TextDelta(text="ok"), TurnResult(end="completed"), StatusChanged(status="idle"))
    session.accept("second")
    session.feed(TurnResult(end="rolled_back"), StatusChanged(status="idle"))
    assert [m.text for m in session.state.messages()] == ["first", "ok"]


def test_later_events_of_a_turn_ended_by_the_gateway_are_discarded_and_counted() -> None:
    session = Session()
    session.accept()
    session._keep(session.form.cut("cancelled", None, 9, discard=True))
    assert session.feed(TextDelta(text="late"), ModelTurnStarted(index=1)) == []
    assert sum(loss.count for loss in session.form.losses) == 2
    session.feed(StatusChanged(status="idle"))
    assert session.form.states.turn is TurnState.NONE
    assert kinds(session.feed(TextDelta(text="next")))[-1] == "TextDelta"


def test_usage_is_summed_over_the_turn() -> None:
    session = Session()
    session.accept()
    for _ in range(2):
        session.feed(UsageReported(usage=Usage(input_tokens=10, output_tokens=1)))
    end = session.feed(StatusChanged(status="idle"))[-1]
    assert isinstance(end, TurnEnded)
    assert end.usage == Usage(input_tokens=20, output_tokens=2)


def test_usage_of_a_terminal_is_reported_if_no_other_event_did() -> None:
    session = Session()
    session.accept()
    said = session.feed(TextDelta(text="a"), TurnEnded(end="completed", usage=Usage(input_tokens=3)))
    assert kinds(said) == ["TextDelta", "TextDone", "UsageReported", "TurnResult", "StatusChanged", "TurnEnded"]
    assert session.state.usage == Usage(input_tokens=3)
    again = session.feed(
        TextDelta(text="b"),
        UsageReported(usage=Usage(input_tokens=5)),
        TurnEnded(end="completed", usage=Usage(input_tokens=5)),
    )
    assert kinds(again).count("UsageReported") == 1
    assert session.state.usage == Usage(input_tokens=8)


def test_a_complete_turn_ends_its_open_model_turn_before_its_result() -> None:
    session = Session()
    said = session.feed(ModelTurnStarted(index=3), TextDelta(text="a"), TurnResult(end="completed"))
    assert said[-3:] == [TextDone(text="a"), ModelTurnEnded(index=3), TurnResult(end="completed")]
    assert kinds(session.feed(StatusChanged(status="idle"))) == ["StatusChanged", "TurnEnded"], "once"


@pytest.mark.parametrize("end", ["limit_reached", "cancelled", "paused", "rolled_back"])
def test_no_end_but_completion_ends_a_model_turn(end: Any) -> None:
    session = Session()
    said = session.feed(ModelTurnStarted(index=3), TurnResult(end=end), StatusChanged(status="idle"))
    assert "ModelTurnEnded" not in kinds(said)


def test_a_rotation_keeps_the_current_input() -> None:
    session = Session()
    session.accept("question")
    session.feed(HistorySnapshot(items=(), rotated=True), TextDelta(text="answer"), StatusChanged(status="idle"))
    assert [m.text for m in session.state.messages()] == ["question", "answer"]


def test_a_repeated_history_keeps_its_ids() -> None:
    session = Session()
    told = (Message(role="user", text="a"), Message(role="assistant", text="b"))
    session.feed(HistorySnapshot(items=told))
    before = [m.id for m in session.state.messages()]
    session.feed(HistorySnapshot(items=(*told, Message(role="user", text="c"))))
    after = [m.id for m in session.state.messages()]
    assert after[:2] == before
    assert len(set(after)) == 3


# -- questions ---------------------------------------------------------------------------------------

MAY_I = ApprovalRequested(tool="rm", description="Delete?")
FORM = InteractionRequired(question="i", kind="identity_intake", spec=Raw(b'{"fields": [{"key": "name"}]}'), reason="")
THEIRS = Origin(link="pod-1", request="p1")


def asked(*before: Event) -> Session:
    session = Session()
    session.accept()
    session.feed(*before, MAY_I)
    return session


def test_a_question_gets_an_id_and_its_words_after_the_text_before_it_is_closed() -> None:
    session = Session()
    session.accept()
    said = session.feed(TextDelta(text="Well. "), MAY_I)
    assert kinds(said) == ["TextDelta", "TextDone", "ApprovalRequested", "QuestionAsked"]
    native, words = said[-2:]
    assert isinstance(native, ApprovalRequested)
    assert isinstance(words, QuestionAsked)
    assert native.question
    assert (words.question, words.before, words.number, words.parked) == (native.question, "Well. ", 1, True)


def test_a_form_keeps_its_own_id_and_names_its_kind() -> None:
    session = Session()
    words = session.feed(FORM)[-1]
    assert isinstance(words, QuestionAsked)
    assert (words.question, words.kind) == ("i", "identity_intake")


def test_a_question_in_words_is_the_last_of_its_run() -> None:
    session = Session()
    session.feed(MAY_I, ToolCallStarted(call="c", name="rm"))
    assert kinds(session.runs[-2].events)[-1] == "QuestionAsked"
    assert kinds(session.runs[-1].events) == ["ToolCallStarted"]


def test_a_question_that_the_route_answers_is_not_put_in_words() -> None:
    session = Session(asks_in_words=False)
    assert kinds(session.feed(MAY_I))[-1] == "ApprovalRequested"
    resolved = session.form.questions.answered(Given(resolved=ApprovalResolved(approved=False)), 9)
    assert kinds([event for run in resolved for event in run.events]) == ["ApprovalResolved"]


def test_the_waiting_call_leaves_the_question_open() -> None:
    session = asked()
    session.feed(
        ToolCallStarted(call="c", name="rm"),
        ToolCallArguments(call="c", name="rm", json="{}", done=True),
        UsageReported(usage=Usage(input_tokens=1)),
        StatusChanged(status="running"),
    )
    assert session.state.turn is not None
    assert session.state.turn.question is not None


@pytest.mark.parametrize(
    "more",
    [
        TextDelta(text="x"),
        TextDone(text="x"),
        ReasoningStarted(),
        ReasoningDelta(text="x"),
        Preamble(text="x"),
        ToolCallFinished(call="c", name="rm", output="x"),
    ],
)
def test_any_other_content_closes_the_question(more: Event) -> None:
    session = asked()
    said = session.feed(more)
    assert kinds(said)[:2] == ["ApprovalResolved", "QuestionAnswered"]
    assert isinstance(said[0], ApprovalResolved)
    assert not said[0].approved


@pytest.mark.parametrize("end", [StatusChanged(status="idle"), TurnEnded(end="cancelled"), TurnEnded(end="completed")])
def test_a_question_is_closed_before_its_turn_is(end: Event) -> None:
    session = asked(TextDelta(text="a"))
    said = session.feed(end)
    assert kinds(said)[:2] == ["ApprovalResolved", "QuestionAnswered"]
    assert isinstance(said[-1], TurnEnded)
    assert said[-1].text == "a", "the question is no part of it"
    assert session.state.turn is None


def test_a_further_question_replaces_the_one_before() -> None:
    session = asked()
    said = session.feed(FORM)
    assert kinds(said) == ["ApprovalResolved", "QuestionAnswered", "InteractionRequired", "QuestionAsked"]
    assert isinstance(said[-1], QuestionAsked)
    assert said[-1].number == 2


def test_a_closed_question_counts_as_answered_by_the_pending_answer() -> None:
    session = asked()
    turn = session.state.turn
    assert turn is not None
    assert turn.question is not None
    yes = ApprovalResolved(question=turn.question.asked.question, approved=True)
    session.given = Given(resolved=yes, segments=(Text(text="approve"),), origin=THEIRS)
    said = session.feed(TextDelta(text="gone"))
    assert kinds(said) == ["TurnAccepted", "ApprovalResolved", "QuestionAnswered", "TextDelta"]
    assert said[1] == yes
    assert session.runs[-1].origin == THEIRS


def test_a_typed_answer_continues_as_a_run_of_its_link() -> None:
    session = asked(TextDelta(text="Well. "))
    typed = (Text(text="deny"),)
    given = Given(resolved=ApprovalResolved(question="", approved=False), segments=typed, origin=THEIRS)
    said = session._keep(session.form.questions.answered(given, 9))
    assert kinds(said) == ["TurnAccepted", "ApprovalResolved", "QuestionAnswered"]
    assert isinstance(said[-1], QuestionAnswered)
    assert (said[-1].segments, said[-1].before, said[-1].number) == (typed, "Well. ", 1)
    assert session.runs[-1].origin == THEIRS


def test_a_question_that_continues_is_answered_and_asked_in_one_run() -> None:
    session = Session()
    session.feed(FORM)
    said = session._keep(session.form.questions.asked_again("And?", 9, segments=(Text(text="Al"),), origin=THEIRS))
    assert kinds(said) == ["TurnAccepted", "QuestionAnswered", "QuestionAsked"]
    assert isinstance(said[-1], QuestionAsked)
    assert (said[-1].text, said[-1].number) == ("And?", 2)
    assert session.state.turn is not None
    assert session.state.turn.question is not None


def test_a_resolution_by_the_backend_closes_the_open_question() -> None:
    session = asked()
    said = session.feed(ApprovalResolved(approved=True))
    assert kinds(said) == ["ApprovalResolved", "QuestionAnswered"]
    session.feed(InteractionResolved(question="x"))
    assert [loss.kind for loss in session.form.losses] == ["InteractionResolved"]


def test_a_turn_ended_by_force_leaves_its_question_to_be_denied() -> None:
    session = asked()
    session._keep(session.form.cut("cancelled", None, 9, discard=True))
    assert [type(question) for question in session.form.unwanted] == [ApprovalRequested]


def test_a_question_of_a_turn_that_is_discarded_is_to_be_denied_and_counted() -> None:
    session = Session()
    session.accept()
    session._keep(session.form.cut("cancelled", None, 9, discard=True))
    assert session.feed(FORM, TextDelta(text="x"), ApprovalResolved(approved=True)) == []
    assert session.form.unwanted == [FORM]
    assert [loss.kind for loss in session.form.losses] == ["InteractionRequired", "TextDelta", "ApprovalResolved"]


def test_a_requested_code_parks_no_turn_and_is_asked_for_in_words_within_the_turn() -> None:
    session = Session()
    session.accept("Pay")
    said = session.feed(
        TextDelta(text="Hm."),
        OtpRequired(tool="pay", description="d", channels=("sms",), auth_level="end_user"),
        OtpSent(channel="sms", destination="*"),
        TurnEnded(end="completed"),
    )
    assert kinds(said)[:6] == ["TextDelta", "TextDone", "OtpRequired", "QuestionAsked", "OtpSent", "QuestionAsked"]
    assert not any(isinstance(event, QuestionAsked) and event.parked for event in said)
    assert session.state.otp is not None
    assert session.state.otp.refused == (Text(text="Pay"),)


def test_without_model_turns_of_the_backend_each_run_begins_with_the_next_number() -> None:
    session = Session(tells_model_turns=False)
    said = [*session.accept(), *session.feed(MAY_I, TextDelta(text="x"), TurnEnded(end="completed"))]
    indices = [
        event.model_turn if isinstance(event, QuestionAnswered) else event.index
        for event in said
        if isinstance(event, QuestionAnswered | ModelTurnStarted | ModelTurnEnded)
    ]
    assert indices == [0, 1, 1]


def test_a_code_sent_outside_of_turns_is_a_run_of_its_own() -> None:
    session = Session()
    assert kinds(session.feed(OtpSent(channel="sms", destination="*"))) == [
        "OtpSent",
        "QuestionAnswered",
        "QuestionAsked",
    ]


def test_answer_outside_of_a_turn_opens_no_turn() -> None:
    session = Session()
    said = session._keep(session.form.questions.noted("No.", 9, segments=(Text(text="code 1"),)))
    assert kinds(said) == ["QuestionAnswered", "QuestionAsked"]
    assert session.runs[-1].turn == ""


# -- any order -----------------------------------------------------------------------------------------

EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(TextDelta, text=st.text(max_size=3)),
    st.builds(TextDone, text=st.text(max_size=3)),
    st.builds(ReasoningDelta, text=st.text(max_size=3)),
    st.builds(ReasoningDone, text=st.text(max_size=3)),
    st.builds(ToolCallStarted, call=st.sampled_from(["", "a", "b"]), name=st.sampled_from(["x", "y"])),
    st.builds(
        ToolCallArguments,
        call=st.sampled_from(["", "a", "b"]),
        name=st.sampled_from(["x", "y"]),
        json=st.just("{}"),
        done=st.booleans(),
    ),
    st.builds(
        ToolCallFinished, call=st.sampled_from(["", "a", "b"]), name=st.sampled_from(["x", "y"]), output=st.just("ok")
    ),
    st.builds(TurnResult, end=st.sampled_from(["completed", "cancelled", "rolled_back", "paused"])),
    st.builds(StatusChanged, status=st.sampled_from(["idle", "running", "paused"])),
    st.builds(ErrorReported, cause=st.just("internal"), text=st.just("x")),
    st.builds(TurnEnded, end=st.sampled_from(["completed", "failed"]), text=st.text(max_size=3)),
    st.builds(HistorySnapshot, items=st.just(()), rotated=st.booleans()),
    st.just(MAY_I),
    st.just(FORM),
    st.builds(ApprovalResolved, approved=st.booleans()),
)


@given(st.lists(EVENTS, max_size=40), st.booleans())
def test_any_order_of_events_gives_complete_turns(events: list[Event], ours: bool) -> None:
    session = Session()
    if ours:
        session.accept()
    for event in events:
        session.feed(event)
    session._keep(session.form.cut("failed", Failure(cause="upstream_lost", text="gone"), 9))
    turns: dict[str, list[Event]] = {}
    for run in session.runs:
        if run.turn:
            turns.setdefault(run.turn, []).extend(run.events)
    for said in turns.values():
        ends = [event for event in said if isinstance(event, TurnEnded)]
        assert len(ends) == 1, "exactly one terminal a turn"
        assert said[-1] is ends[0], "nothing of a turn after its end"
        streamed = "".join(e.text for e in said if isinstance(e, TextDelta))
        assert streamed == ends[0].text or "Gap" in kinds(said), "the tokens are the text, unless a gap is told"
        assert kinds(said).count("TurnResult") >= 1
        finished = [e.call for e in said if isinstance(e, ToolCallArguments) and e.done]
        assert len(finished) == len(set(finished)), "complete arguments once a call"
        started = {e.call for e in said if isinstance(e, ToolCallStarted)}
        assert started == set(finished), "every call that began has its complete arguments"
        asked = [e.question for e in said if isinstance(e, ApprovalRequested | InteractionRequired)]
        assert asked == [e.question for e in said if isinstance(e, ApprovalResolved | InteractionResolved)]
        assert kinds(said).count("QuestionAsked") == kinds(said).count("QuestionAnswered") == len(asked)
    assert not any(
        isinstance(event, TurnAccepted | TextDelta) for run in session.runs if not run.turn for event in run.events
    )
