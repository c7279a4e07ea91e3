"""The normal form of a turn: whatever a backend sends or omits, its clients see a whole turn with one end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    ModelTurnStarted,
    Preamble,
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
)
from dragoman.mappings.canonical.values import Failure, Message, Role, Text
from tests.gateway.session.hand_fed import FORM, MAY_I, OURS, NormalFormHarness, accepted, asked, kinds


def test_an_accepted_input_opens_its_turn_with_the_users_message_once() -> None:
    session = NormalFormHarness()
    assert kinds(session.accept()) == ["TurnAccepted", "MessageAppended", "StatusChanged"]
    assert session.feed(StatusChanged(status="running")) == []
    assert session.runs[0].origin == OURS
    assert [m.text for m in session.state.messages()] == ["hi"]


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
    session = NormalFormHarness()
    session.feed(event)
    assert session.state.turn is None
    assert all(run.turn == "" for run in session.runs)


def test_the_list_of_a_store_only_adds_to_what_the_session_knows() -> None:
    session = NormalFormHarness()
    known, new = Message(role="user", text="1", id="1"), Message(role="user", text="2", id="2")
    session.feed(HistorySnapshot(items=(known,)))
    assert session.feed(HistorySnapshot(items=(known,))) == []
    session.feed(HistorySnapshot(items=(Message(role="assistant", text="of an unknown input", id="a"), new)))
    assert [item.text for item in session.state.transcript if isinstance(item, Message)] == ["1", "2"]


@pytest.mark.parametrize(
    ("stored", "told", "texts"),
    [
        ((), ("hi",), ["hi", "some text"]),
        (("hi",), (), ["hi", "some text"]),
        (("hi", "some text"), ("hi",), ["hi", "some text", "hi", "text"]),
    ],
    ids=["its input is told again", "its input is stored", "its run has ended, and another client says the same"],
)
def test_a_run_that_goes_on_after_its_turn_failed_with_its_connection_stands_once(
    stored: tuple[str, ...], told: tuple[str, ...], texts: list[str]
) -> None:
    """A pando tells the history, perhaps an input that has no answer yet, and then the rest of the run."""
    session = accepted()
    session.feed(TextDelta(text="some "))
    session.take_runs(session.form.cut("failed", Failure(cause="upstream_lost", text="gone"), 9))
    before = [Message(role="user", text="before"), Message(role="assistant", text="answer")]
    roles: tuple[Role, Role] = ("user", "assistant")
    known = [Message(role=role, text=text) for role, text in zip(roles, stored, strict=False)]
    session.feed(HistorySnapshot(items=(*before, *known)))
    session.feed(*[MessageAppended(message=Message(role="user", text=text)) for text in told])
    session.feed(TextDelta(text="text"), TurnEnded(end="completed", text=texts[-1]))
    assert [message.text for message in session.state.messages()] == ["before", "answer", *texts]


def test_a_list_that_was_read_before_a_new_input_does_not_take_it_back() -> None:
    session = NormalFormHarness()
    known = Message(role="user", text="one", id="1")
    session.feed(HistorySnapshot(items=(known, Message(role="assistant", text="done", id="2"))))
    session.feed(MessageAppended(message=Message(role="user", text="two", id="3")))
    session.feed(HistorySnapshot(items=(known,)))
    assert [item.text for item in session.state.messages()] == ["one", "done", "two"]


def test_a_result_after_a_resume_has_the_name_of_its_tool() -> None:
    session = accepted()
    session.feed(ToolCallStarted(call="c", name="grep"), TurnResult(end="paused"), StatusChanged(status="paused"))
    said = session.feed(StatusChanged(status="running"), ToolCallFinished(call="c", output="37"))
    assert said[-1] == ToolCallFinished(call="c", name="grep", output="37")


def test_model_turns_of_a_dialect_without_numbers_are_numbered_by_the_session() -> None:
    session = accepted()
    told = session.feed(ModelTurnStarted(), TextDelta(text="a"), ModelTurnStarted())
    assert [told[0], told[-1]] == [ModelTurnStarted(index=0), ModelTurnStarted(index=1)]


def test_the_session_counts_on_from_the_number_that_the_backend_told() -> None:
    session = accepted()
    assert session.feed(ModelTurnStarted(index=7), ModelTurnStarted())[-1] == ModelTurnStarted(index=8)


def test_a_question_before_any_model_turn_is_shown_again_in_a_turn_that_a_pod_can_number() -> None:
    assert NormalFormHarness().form.last_model_turn == 0, (
        "a pod's `turn` is no negative number (docs/dialects/pod.md, section 6)"
    )


def test_later_events_of_a_turn_ended_by_the_gateway_are_discarded_and_counted() -> None:
    session = accepted()
    session.take_runs(session.form.cut("cancelled", None, 9, discard=True))
    assert session.feed(TextDelta(text="late"), ModelTurnStarted(index=1)) == []
    assert sum(loss.count for loss in session.form.losses) == 2
    session.feed(StatusChanged(status="idle"))
    assert session.form.states.turn is TurnState.NONE
    assert kinds(session.feed(TextDelta(text="next")))[-1] == "TextDelta"


# -- questions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        TextDelta(text="x"),
        TextDone(text="x"),
        ReasoningStarted(),
        ReasoningDelta(text="x"),
        Preamble(text="x"),
    ],
)
def test_any_other_content_closes_the_question(more: Event) -> None:
    session = asked()
    said = session.feed(more)
    assert kinds(said)[:2] == ["ApprovalResolved", "QuestionAnswered"]
    assert isinstance(said[0], ApprovalResolved)
    assert not said[0].approved


def test_answer_outside_of_a_turn_opens_no_turn() -> None:
    session = NormalFormHarness()
    said = session.take_runs(session.form.questions.noted("No.", 9, segments=(Text(text="code 1"),)))
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
    session = NormalFormHarness()
    if ours:
        session.accept()
    for event in events:
        session.feed(event)
    session.take_runs(session.form.cut("failed", Failure(cause="upstream_lost", text="gone"), 9))
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
        started = [e.call for e in said if isinstance(e, ToolCallStarted)]
        assert sorted(started) == sorted(finished), "every call that began has its complete arguments, once"
        asked = [e.question for e in said if isinstance(e, ApprovalRequested | InteractionRequired)]
        assert asked == [e.question for e in said if isinstance(e, ApprovalResolved | InteractionResolved)]
        assert kinds(said).count("QuestionAsked") == kinds(said).count("QuestionAnswered") == len(asked)
    assert not any(
        isinstance(event, TurnAccepted | TextDelta) for run in session.runs if not run.turn for event in run.events
    )
