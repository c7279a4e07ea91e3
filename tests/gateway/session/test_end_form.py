"""The normal form of the end of a turn: in one order, with all of its text, and with a cause if it failed."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.events import (
    ErrorReported,
    ModelTurnEnded,
    ModelTurnStarted,
    StatusChanged,
    TextDelta,
    TextDone,
    ToolCallArguments,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    TurnResult,
    UsageReported,
)
from dragoman.mappings.canonical.state import SHORTENED_MAX
from dragoman.mappings.canonical.values import Failure, Message, ToolCall, Usage
from tests.gateway.session.hand_fed import NormalFormHarness, accepted, kinds
from tests.step_counter import count_steps

CALL = (ToolCallStarted(call="c", name="ls"), ToolCallFinished(call="c", output="x"))


def test_a_contradicting_terminal_closes_the_open_block_with_its_text() -> None:
    session = accepted()
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
        (("one: $1, ", "two: $2"), "one: €1, two: €2", ["one: €1, two: €2"]),
    ],
)
def test_a_terminal_corrects_contradicting_blocks(streamed: tuple[str, str], final: str, kept: list[str]) -> None:
    session = NormalFormHarness()
    first, second = streamed
    session.feed(TextDelta(text=first), TextDone(text=first), *CALL, TextDelta(text=second), TextDone(text=second))
    session.feed(TurnEnded(end="completed", text=final))
    assert [item.text for item in session.state.transcript if isinstance(item, Message)] == kept


def test_a_terminal_with_only_the_end_of_the_streamed_text_is_no_contradiction() -> None:
    """The real smooth server in Python ends a turn with the text of its last model call. dragoman puts a line about
    lost context before the first answer.
    """
    session = accepted()
    said = session.feed(
        TextDelta(text="Let me look. "),
        *CALL,
        TextDelta(text="It is here."),
        TurnEnded(end="completed", text="It is here."),
    )
    assert "Gap" not in kinds(said)
    assert [event.text for event in said if isinstance(event, TextDone)] == ["Let me look. ", "It is here."]
    said = session.feed(TextDelta(text="[context lost]\nHello"), TurnEnded(end="completed", text="Hello"))
    assert "Gap" not in kinds(said)
    assert session.state.messages()[-1].text == "Hello"


@pytest.mark.parametrize("streamed", [("Hello", "\n"), ("Let me look. ", "", "Hello \n")])
def test_a_terminal_without_the_white_space_at_the_end_is_no_contradiction(streamed: tuple[str, ...]) -> None:
    """The real smooth server in Rust streams it before it finds that suggested replies follow."""
    session = accepted()
    said = session.feed(*[item for text in streamed for item in ((TextDelta(text=text),) if text else CALL)])
    said += session.feed(TurnEnded(end="completed", text="Hello"))
    assert "Gap" not in kinds(said)
    assert [event.text for event in said if isinstance(event, TextDelta)] == [text for text in streamed if text]
    assert session.state.messages()[-1].text == "Hello"


def test_a_terminal_that_leaves_out_sentences_leaves_the_streamed_text_in_the_history() -> None:
    """The real smooth server in Rust shows at most six sentences of an answer with many equal lines, but stores all."""
    streamed = "The code:\n```\nif a {\n  b();\n}\n" + "}\n" * 7 + "```\nThat is all. Version 1.5 has it."
    shown = "The code: if a { b(); That is all. Version 1. 5 has it."
    session = accepted()
    said = session.feed(TextDelta(text=streamed), TurnEnded(end="completed", text=shown))
    assert "Gap" not in kinds(said)
    assert [event.text for event in said if isinstance(event, TextDone)] == [streamed]
    assert said[-1] == TurnEnded(end="completed", text=shown, message=session.state.messages()[-1].id)
    assert session.state.messages()[-1].text == streamed


def test_a_long_terminal_is_not_compared_sign_by_sign() -> None:
    streamed = "!" * SHORTENED_MAX + "?!"
    session = accepted()
    session.feed(TextDelta(text=streamed))
    said: list[Event] = []
    ended = TurnEnded(end="completed", text=streamed.replace("?", ""))
    assert count_steps(lambda: said.extend(session.feed(ended))) < SHORTENED_MAX
    assert "Gap" in kinds(said)
    assert session.state.messages()[-1].text == ended.text


def test_a_terminal_with_more_text_sends_the_rest_as_a_delta() -> None:
    session = accepted()
    said = session.feed(TextDelta(text="He"), TurnEnded(end="completed", text="Hello", message="m9"))
    assert kinds(said) == ["TextDelta", "TextDelta", "TextDone", "TurnResult", "StatusChanged", "TurnEnded"]
    assert said[-1] == TurnEnded(end="completed", text="Hello", message="m9")


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
    session = accepted()
    said = session.feed(TextDelta(text="x"), *events)
    ends = [event for event in said if isinstance(event, TurnEnded)]
    assert [event.end for event in ends] == [end]
    assert (ends[0].failure == Failure(cause="model_failed", text="x")) == (end == "failed")
    assert kinds(said).count("TurnResult") == 1


def test_a_failure_without_a_cause_is_given_one() -> None:
    session = accepted()
    said = session.feed(TextDelta(text="x"), TurnEnded(end="failed"))
    (error,) = [event for event in said if isinstance(event, ErrorReported)]
    assert error == ErrorReported(cause="internal", text="the turn failed")
    assert isinstance(said[-1], TurnEnded)
    assert said[-1].failure == Failure(cause=error.cause, text=error.text)


def test_usage_of_a_terminal_is_reported_if_no_other_event_did() -> None:
    session = accepted()
    said = session.feed(TextDelta(text="a"), TurnEnded(end="completed", usage=Usage(input_tokens=3)))
    assert kinds(said) == ["TextDelta", "TextDone", "UsageReported", "TurnResult", "StatusChanged", "TurnEnded"]
    assert UsageReported(usage=Usage(input_tokens=3)) in said
    again = session.feed(
        TextDelta(text="b"),
        UsageReported(usage=Usage(input_tokens=5)),
        TurnEnded(end="completed", usage=Usage(input_tokens=5)),
    )
    assert kinds(again).count("UsageReported") == 1


def test_a_complete_turn_ends_its_open_model_turn_before_its_result() -> None:
    session = NormalFormHarness()
    said = session.feed(ModelTurnStarted(index=3), TextDelta(text="a"), TurnResult(end="completed"))
    assert said[-3:] == [TextDone(text="a"), ModelTurnEnded(index=3), TurnResult(end="completed")]
    assert kinds(session.feed(StatusChanged(status="idle"))) == ["StatusChanged", "TurnEnded"], "once"


@pytest.mark.parametrize("end", ["limit_reached", "cancelled", "paused", "rolled_back"])
def test_no_end_but_completion_ends_a_model_turn(end: Any) -> None:
    session = NormalFormHarness()
    said = session.feed(ModelTurnStarted(index=3), TurnResult(end=end), StatusChanged(status="idle"))
    assert "ModelTurnEnded" not in kinds(said)


def test_a_call_that_a_cancel_cut_inside_of_its_arguments_was_never_made() -> None:
    session = accepted()
    session.feed(*CALL, ToolCallStarted(call="d", name="grep"), ToolCallArguments(call="d", json='{"pat'))
    ended = session.feed(ErrorReported(cause="internal", text="Cancelled"), StatusChanged(status="idle"))
    assert "ToolCallArguments" not in kinds(ended)
    assert [item.call for item in session.state.transcript if isinstance(item, ToolCall)] == ["c"]


def test_a_turn_whose_failed_result_has_no_cause_fails_with_the_words_of_the_gateway() -> None:
    session = accepted()
    end = session.feed(TurnResult(end="failed"), StatusChanged(status="idle"))[-1]
    assert isinstance(end, TurnEnded)
    assert (end.end, end.failure) == ("failed", Failure(cause="internal", text="the turn failed"))
