"""Text, reasoning and tool calls in normal form: whole, closed, and each call with one result."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.gateway.session.content import INCOMPLETE_MAX, TOO_MANY_INCOMPLETE
from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.events import (
    Gap,
    ModelContinuation,
    ModelTurnEnded,
    ModelTurnStarted,
    ReasoningDelta,
    ReasoningDone,
    ReasoningStarted,
    StatusChanged,
    TextDelta,
    TextDone,
    ToolCallArguments,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    TurnResult,
)
from dragoman.mappings.canonical.state import prelude
from dragoman.mappings.canonical.values import Origin, Reasoning, ToolCall
from tests.gateway.session.hand_fed import NormalFormHarness, accepted, kinds
from tests.step_counter import GROWTH, growth


def test_content_without_a_turn_opens_a_turn_of_the_backend() -> None:
    session = NormalFormHarness()
    said = session.feed(TextDelta(text="news"))
    assert kinds(said) == ["StatusChanged", "TextDelta"]
    assert session.runs[-1].origin == Origin()
    assert session.runs[-1].turn


def test_a_finished_block_sends_its_missing_rest_first() -> None:
    session = accepted()
    said = session.feed(TextDelta(text="He"), TextDone(text="Hello"))
    assert said == [TextDelta(text="He"), TextDelta(text="llo"), TextDone(text="Hello")]


def test_a_finished_block_that_contradicts_its_deltas_is_a_gap() -> None:
    session = accepted()
    assert kinds(session.feed(TextDelta(text="He"), TextDone(text="Yo"))) == ["TextDelta", "Gap", "TextDone"]
    end = session.feed(StatusChanged(status="idle"))[-1]
    assert isinstance(end, TurnEnded)
    assert end.text == "Yo", "the done text is the authority"
    assert [m.text for m in session.state.messages()] == ["hi", "Yo"]
    assert [(loss.kind, loss.count) for loss in session.form.losses] == [("Gap", 1)]


def test_a_block_received_from_its_middle_is_complete_for_later_clients() -> None:
    session = NormalFormHarness()
    said = session.feed(TextDelta(text="world"), TextDone(text="hello world"))
    assert [event.text for event in said if isinstance(event, Gap)] == ["the beginning of a block was not received"]
    assert [e for e in prelude(session.state) if isinstance(e, TextDelta)] == [TextDelta(text="hello world")]


def test_reasoning_received_from_its_middle_is_complete_in_the_transcript() -> None:
    session = NormalFormHarness()
    session.feed(ReasoningDelta(text="so"), ReasoningDone(text="and so"), StatusChanged(status="idle"))
    assert [item.text for item in session.state.transcript if isinstance(item, Reasoning)] == ["and so"]


def test_reasoning_then_text_then_a_call_are_three_closed_blocks() -> None:
    session = accepted()
    said = session.feed(ReasoningDelta(text="hm"), TextDelta(text="a"), ToolCallStarted(call="c", name="grep"))
    assert said == [
        ReasoningStarted(),
        ReasoningDelta(text="hm"),
        ReasoningDone(text="hm"),
        TextDelta(text="a"),
        TextDone(text="a"),
        ToolCallStarted(call="c", name="grep"),
    ]


def test_a_block_closed_by_the_gateway_is_not_shown_again_when_the_backend_closes_it() -> None:
    session = accepted()
    session.feed(TextDelta(text="a"), ToolCallStarted(call="c", name="grep"))
    assert session.feed(TextDone(text="a")) == []


BROKE = ModelContinuation(index=0, attempt=1, max_attempts=3, reason="closed")


def test_a_block_in_which_the_stream_of_the_model_broke_ends_there_and_the_next_text_is_another_block() -> None:
    session = accepted()
    said = session.feed(TextDelta(text="He"), BROKE, TextDelta(text="Hello"), TextDone(text="Hello"))
    assert said == [
        TextDelta(text="He"),
        TextDone(text="He"),
        BROKE,
        TextDelta(text="Hello"),
        TextDone(text="Hello"),
    ]
    end = session.feed(StatusChanged(status="idle"))[-1]
    assert isinstance(end, TurnEnded)
    assert end.text == "HeHello", "clients saw both"


def test_calls_that_the_stream_of_the_model_began_before_it_broke_are_dropped() -> None:
    session = accepted()
    session.feed(
        ToolCallStarted(call="a", name="ls"),
        ToolCallFinished(call="a", output="x"),
        ToolCallArguments(call="b", name="ls", json="{}", done=True),
        ToolCallStarted(call="c", name="grep"),
        ToolCallArguments(call="c", json='{"pat'),
    )
    assert session.feed(BROKE) == [BROKE]
    assert [event.call for event in prelude(session.state) if isinstance(event, ToolCallStarted)] == ["a"]
    assert "ToolCallArguments" not in kinds(session.feed(StatusChanged(status="idle")))
    assert [item.call for item in session.state.transcript if isinstance(item, ToolCall)] == ["a"]
    assert session.state.earlier_calls == {"a": None}


def test_a_finished_call_stays_if_the_stream_of_the_model_breaks_in_a_later_one_with_its_id() -> None:
    session = accepted()
    finished = ToolCallFinished(call="0", name="ls", output="x")
    session.feed(ToolCallStarted(call="0", name="ls"), finished, ToolCallStarted(call="0", name="grep"), BROKE)
    calls = ToolCallStarted | ToolCallFinished
    assert [event for event in prelude(session.state) if isinstance(event, calls)] == [
        ToolCallStarted(call="0", name="ls"),
        finished,
    ]


def test_the_oldest_of_very_many_incomplete_calls_is_completed_before_the_end_of_the_turn() -> None:
    session = accepted()
    calls = [ToolCallStarted(call=f"c{number}", name="t") for number in range(INCOMPLETE_MAX + 2)]
    said = session.feed(*calls[:-2], ToolCallArguments(call="c0", json="{}"))
    assert ToolCallArguments(call="c0", name="t", json="{}", done=True) not in said
    done = [event.call for event in session.feed(*calls[-2:]) if isinstance(event, ToolCallArguments)]
    assert done == ["c0", "c1"]
    assert [(loss.kind, loss.why) for loss in session.form.losses] == [("ToolCallStarted", TOO_MANY_INCOMPLETE)] * 2
    ended = session.feed(StatusChanged(status="idle"))
    assert kinds(ended).count("ToolCallArguments") == INCOMPLETE_MAX


def test_calls_without_ids_are_distinguished_by_name_and_order() -> None:
    session = accepted()
    for arguments in ("1", "2"):
        session.feed(ToolCallStarted(name="add"), ToolCallArguments(name="add", json=arguments, done=True))
    first, second = session.feed(ToolCallFinished(name="add", output="one"), ToolCallFinished(name="add", output="two"))
    assert isinstance(first, ToolCallFinished)
    assert isinstance(second, ToolCallFinished)
    turn = session.state.turn
    assert turn is not None
    assert turn.calls[first.call].arguments == "1"
    assert turn.calls[second.call].arguments == "2"


def test_a_result_of_an_unknown_call_gets_a_call_start() -> None:
    session = NormalFormHarness()
    said = session.feed(ToolCallFinished(call="c", name="ls", output="x"))
    assert kinds(said)[-3:] == ["ToolCallStarted", "ToolCallArguments", "ToolCallFinished"]
    assert said[-3] == ToolCallStarted(call="c", name="ls")
    assert said[-2] == ToolCallArguments(call="c", name="ls", json="{}", done=True), "clients parse them"


def test_a_result_of_an_open_call_of_an_earlier_turn_gets_no_call_start() -> None:
    session = NormalFormHarness()
    session.feed(ToolCallStarted(call="b", name="ls"), StatusChanged(status="idle"))
    said = kinds(session.feed(ToolCallFinished(call="b", output="y")))
    assert said[-1] == "ToolCallFinished"
    assert "ToolCallStarted" not in said


CALL = ("ToolCallStarted", "ToolCallArguments", "ToolCallFinished")


def test_a_call_with_the_id_of_a_finished_call_of_an_earlier_turn_gets_a_start() -> None:
    """Some models number the calls of each answer from 0, and some pandos tell only the ends."""
    session = NormalFormHarness()
    for output in ("x", "y"):
        assert kinds(session.feed(ToolCallFinished(call="ls:0", name="ls", output=output)))[-3:] == [*CALL]
        session.feed(StatusChanged(status="idle"))


def test_a_call_with_the_id_of_a_finished_call_of_its_turn_is_another_call() -> None:
    session = accepted()
    for output in ("x", "y"):
        said = session.feed(ToolCallStarted(call="ls:0", name="ls"), ToolCallFinished(call="ls:0", output=output))
        assert kinds(said) == [*CALL]
    session.feed(StatusChanged(status="idle"))
    calls = [item for item in session.state.transcript if isinstance(item, ToolCall)]
    assert [call.call for call in calls] == ["ls:0", "ls:0"]


def test_the_result_of_an_unknown_call_costs_the_same_however_long_the_transcript_is() -> None:
    def unknown_result(transcript: int) -> Callable[[], object]:
        session = NormalFormHarness()
        session.state.transcript += [Reasoning(text="", at=0)] * transcript
        return lambda: session.feed(ToolCallFinished(call="c", name="ls", output="x"))

    assert growth(unknown_result, [10_000, 10_000, 20_000]) < 1.1


def test_a_model_turn_ends_after_what_a_broken_stream_left_open() -> None:
    """The real pod ends the model turn of a broken call without the call's arguments; `run_end` follows at once."""
    session = accepted()
    session.feed(
        ModelTurnStarted(index=1),
        TextDelta(text="a"),
        ToolCallStarted(call="die_3", name="Bash"),
        ToolCallArguments(call="die_3", name="Bash", json='{"comm'),
        TextDelta(text="b"),
    )
    whole = ToolCallArguments(call="die_3", name="Bash", json='{"comm', done=True)
    assert session.feed(ModelTurnEnded(index=1)) == [TextDone(text="b"), whole, ModelTurnEnded(index=1)]
    end = session.feed(TurnResult(end="completed"), StatusChanged(status="idle"))
    assert kinds(end) == ["TurnResult", "StatusChanged", "TurnEnded"]


def many_calls(number: int) -> Callable[[], object]:
    """Return the work of a turn with so many calls without ids, each in a model turn of its own."""
    session = accepted()
    call: list[Event] = [
        ModelTurnStarted(),
        ToolCallStarted(call="", name="ls"),
        ToolCallArguments(call="", name="ls", json="{}", done=True),
        ToolCallFinished(call="", name="ls", output="a file"),
        ModelTurnEnded(),
    ]
    return lambda: session.feed(*call * number)


def test_a_call_costs_the_same_however_many_calls_its_turn_has_had() -> None:
    assert growth(many_calls, [100, 100, 200, 400]) <= GROWTH


def test_a_corrected_text_costs_the_same_for_each_block_of_its_turn() -> None:
    def many_blocks(number: int) -> Callable[[], object]:
        session = accepted()
        block: list[Event] = [TextDelta(text="x"), ToolCallStarted(call="", name="ls")]
        session.feed(*block * number)
        return lambda: session.feed(TurnEnded(end="completed", text="another answer"))

    assert growth(many_blocks, [100, 100, 200, 400]) <= GROWTH
