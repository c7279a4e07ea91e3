"""The normal form of a turn: whatever a backend says or leaves out, its clients see a whole turn with one end."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.runs import Run
from gateway.turn import NormalForm
from mappings.canonical import Event, SessionState
from mappings.canonical.events import (
    ErrorReported,
    HistorySnapshot,
    MessageAppended,
    ModelTurnStarted,
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
from mappings.canonical.values import Failure, Message, Origin, Usage

OURS = Origin(link="smooth-1", request="r1")


class Session:
    """A normal form with its state, fed by hand."""

    def __init__(self) -> None:
        numbers = count(1)
        self.state = SessionState(id=str(UUID(int=0)))
        self.form = NormalForm(self.state, lambda: str(UUID(int=next(numbers))))
        self.runs: list[Run] = []

    def accept(self, text: str = "hi") -> list[Event]:
        return self._keep(self.form.accept(OURS, Message(role="user", text=text), 5))

    def feed(self, *events: Event) -> list[Event]:
        return self._keep(self.form.feed(events, 7))

    def _keep(self, runs: list[Run]) -> list[Event]:
        self.runs += runs
        return [event for run in runs for event in run.events]


def kinds(events: Sequence[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


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


def test_content_without_a_turn_opens_one_of_the_backends_own() -> None:
    session = Session()
    said = session.feed(TextDelta(text="news"))
    assert kinds(said) == ["StatusChanged", "TextDelta"]
    assert session.runs[-1].origin == Origin()
    assert session.runs[-1].turn


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


def test_a_finished_block_sends_its_missing_rest_first() -> None:
    session = Session()
    session.accept()
    said = session.feed(TextDelta(text="He"), TextDone(text="Hello"))
    assert said == [TextDelta(text="He"), TextDelta(text="llo"), TextDone(text="Hello")]


def test_a_finished_block_that_contradicts_its_deltas_is_a_gap() -> None:
    session = Session()
    session.accept()
    assert kinds(session.feed(TextDelta(text="He"), TextDone(text="Yo"))) == ["TextDelta", "Gap", "TextDone"]
    end = session.feed(StatusChanged(status="idle"))[-1]
    assert isinstance(end, TurnEnded)
    assert end.text == "He", "the whole text is what was streamed: concatenated tokens equal it"


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


def test_reasoning_then_text_then_a_call_are_three_closed_blocks() -> None:
    session = Session()
    session.accept()
    said = session.feed(ReasoningDelta(text="hm"), TextDelta(text="a"), ToolCallStarted(call="c", name="grep"))
    assert said == [
        ReasoningStarted(),
        ReasoningDelta(text="hm"),
        ReasoningDone(text="hm"),
        TextDelta(text="a"),
        TextDone(text="a"),
        ToolCallStarted(call="c", name="grep"),
    ]


def test_a_block_that_we_closed_is_not_shown_twice_when_its_backend_closes_it() -> None:
    session = Session()
    session.accept()
    session.feed(TextDelta(text="a"), ToolCallStarted(call="c", name="grep"))
    assert session.feed(TextDone(text="a")) == []


def test_a_result_brings_the_arguments_that_were_never_finished() -> None:
    session = Session()
    session.accept()
    session.feed(ToolCallStarted(call="c", name="grep"), ToolCallArguments(call="c", json="{}"))
    said = session.feed(ToolCallFinished(call="c", output="ok"))
    assert said == [
        ToolCallArguments(call="c", name="grep", json="{}", done=True),
        ToolCallFinished(call="c", name="grep", output="ok"),
    ]


def test_calls_without_ids_are_told_apart_by_name_and_order() -> None:
    session = Session()
    session.accept()
    for arguments in ("1", "2"):
        session.feed(ToolCallStarted(name="add"), ToolCallArguments(name="add", json=arguments, done=True))
    first, second = session.feed(ToolCallFinished(name="add", output="one"), ToolCallFinished(name="add", output="two"))
    assert isinstance(first, ToolCallFinished)
    assert isinstance(second, ToolCallFinished)
    turn = session.state.turn
    assert turn is not None
    assert turn.calls[first.call].arguments == "1"
    assert turn.calls[second.call].arguments == "2"


def test_a_result_after_a_resume_knows_its_tools_name() -> None:
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
def test_the_end_of_a_pod_turn_is_decided_by_what_came_before_its_status(events: tuple[Event, ...], end: str) -> None:
    session = Session()
    session.accept()
    said = session.feed(TextDelta(text="x"), *events)
    ends = [event for event in said if isinstance(event, TurnEnded)]
    assert [event.end for event in ends] == [end]
    assert (ends[0].failure == Failure(cause="model_failed", text="x")) == (end == "failed")
    assert kinds(said).count("TurnResult") == 1


def test_a_rolled_back_turn_takes_the_users_message_out_of_the_transcript() -> None:
    session = Session()
    session.accept("first")
    session.feed(TextDelta(text="ok"), TurnResult(end="completed"), StatusChanged(status="idle"))
    session.accept("second")
    session.feed(TurnResult(end="rolled_back"), StatusChanged(status="idle"))
    assert [m.text for m in session.state.messages()] == ["first", "ok"]


def test_a_turn_ended_by_us_discards_what_its_backend_still_says_and_counts_it() -> None:
    session = Session()
    session.accept()
    session._keep(session.form.end("cancelled", None, 9, discard=True))
    assert session.feed(TextDelta(text="late"), ModelTurnStarted(index=1)) == []
    assert sum(loss.count for loss in session.form.losses) == 2
    session.feed(StatusChanged(status="idle"))
    assert not session.form.discarding
    assert kinds(session.feed(TextDelta(text="next")))[-1] == "TextDelta"


def test_usage_is_summed_over_the_turn() -> None:
    session = Session()
    session.accept()
    for _ in range(2):
        session.feed(UsageReported(usage=Usage(input_tokens=10, output_tokens=1)))
    end = session.feed(StatusChanged(status="idle"))[-1]
    assert isinstance(end, TurnEnded)
    assert end.usage == Usage(input_tokens=20, output_tokens=2)


def test_a_rotation_keeps_the_input_that_is_being_worked_on() -> None:
    session = Session()
    session.accept("question")
    session.feed(HistorySnapshot(items=(), rotated=True), TextDelta(text="answer"), StatusChanged(status="idle"))
    assert [m.text for m in session.state.messages()] == ["question", "answer"]


def test_a_history_that_comes_again_keeps_the_ids_it_had() -> None:
    session = Session()
    told = (Message(role="user", text="a"), Message(role="assistant", text="b"))
    session.feed(HistorySnapshot(items=told))
    before = [m.id for m in session.state.messages()]
    session.feed(HistorySnapshot(items=(*told, Message(role="user", text="c"))))
    after = [m.id for m in session.state.messages()]
    assert after[:2] == before
    assert len(set(after)) == 3


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
)


@given(st.lists(EVENTS, max_size=40), st.booleans())
def test_any_order_gives_whole_turns(events: list[Event], ours: bool) -> None:
    session = Session()
    if ours:
        session.accept()
    for event in events:
        session.feed(event)
    session._keep(session.form.end("failed", Failure(cause="upstream_lost", text="gone"), 9))
    turns: dict[str, list[Event]] = {}
    for run in session.runs:
        if run.turn:
            turns.setdefault(run.turn, []).extend(run.events)
    for said in turns.values():
        ends = [event for event in said if isinstance(event, TurnEnded)]
        assert len(ends) == 1, "exactly one terminal a turn"
        assert said[-1] is ends[0], "nothing of a turn after its end"
        assert "".join(e.text for e in said if isinstance(e, TextDelta)) == ends[0].text
        assert kinds(said).count("TurnResult") >= 1
        finished = [e.call for e in said if isinstance(e, ToolCallArguments) and e.done]
        assert len(finished) == len(set(finished)), "complete arguments once a call"
        started = {e.call for e in said if isinstance(e, ToolCallStarted)}
        assert started == set(finished), "every call that began has its complete arguments"
    assert not any(
        isinstance(event, TurnAccepted | TextDelta) for run in session.runs if not run.turn for event in run.events
    )
