"""The weight of events: it counts every field that a peer can make long, and a batch weighs as much as its events."""

from __future__ import annotations

import pytest
from msgspec import Raw, json

from dragoman.gateway.session.weight import ITEM, VALUE, in_turn, of_events, of_item, of_text, of_values
from dragoman.mappings.canonical import Command, Event, SessionState
from dragoman.mappings.canonical.commands import Compact, OpenSession, RenameSession, SubmitInput
from dragoman.mappings.canonical.events import (
    ErrorReported,
    Gap,
    HistorySnapshot,
    MessageAppended,
    QuestionAsked,
    ReasoningDelta,
    ReasoningDone,
    TextDelta,
    TextDone,
    ToolCallArguments,
    ToolCallFinished,
    ToolCallStarted,
    ToolOutputDelta,
    TurnEnded,
)
from dragoman.mappings.canonical.state import CallBlock, OpenTurn
from dragoman.mappings.canonical.values import (
    FileAttachment,
    ImageAttachment,
    Item,
    Message,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)


@pytest.mark.parametrize(
    ("event", "weight"),
    [
        (TextDelta(text="abc"), 3),
        (TurnEnded(end="completed", text="abcd"), 4),
        (ToolCallArguments(json="{}", call="abc", name="d"), 2 + 3 + 1),
        (ToolOutputDelta(text="ab"), 2),
        (ToolCallFinished(output="\n\n", summary="a", call="abc", name="d"), 2 + 1 + 3 + 1),
    ],
)
def test_a_text_that_streams_or_may_be_large_weighs_as_many_bytes_as_it_has_characters(
    event: Event, weight: int
) -> None:
    assert of_events([event]) == weight
    assert of_events([event, TextDelta(text="x"), event]) == 2 * weight + 1


LONG = "x" * 1_000


@pytest.mark.parametrize(
    "event",
    [
        MessageAppended(message=Message(role="user", text=LONG)),
        MessageAppended(message=Message(role="user", text="", segments=(ImageAttachment(url=LONG),))),
        MessageAppended(message=Message(role="user", text="", segments=(FileAttachment(name="f", url=LONG),))),
        HistorySnapshot(items=(Message(role="user", text=LONG),)),
        HistorySnapshot(items=(), ext={"pod.entries": Raw(json.encode(LONG))}),
        ErrorReported(cause="internal", text=LONG),
        ToolCallArguments(json="{}", call="c", name="t", ext={"smooth.node": Raw(json.encode(LONG))}),
        ToolCallFinished(call="c", name="t", ext={"smooth.node": Raw(json.encode(LONG))}),
        TurnEnded(end="completed", text="a", ext={"smooth.response": Raw(json.encode(LONG))}),
    ],
)
def test_the_weight_of_an_event_counts_each_field_that_a_peer_can_make_long(event: Event) -> None:
    assert len(LONG) < of_events([event]) < len(LONG) + 200


# -- what a new client is sent -----------------------------------------------------------------------


@pytest.mark.parametrize(("text", "size"), [("ab", 2), ("\x01", 6), ('"', 2), ("\n", 2), ("é", 2), ("", 0)])
def test_a_text_has_the_size_of_its_json(text: str, size: int) -> None:
    assert of_text(text) == size == len(json.encode(text)) - 2


CONTROL = "\x01" * 100
NO_TURN = SessionState(id="s")


@pytest.mark.parametrize(
    "item",
    [
        Message(role="user", text=CONTROL),
        Message(role="user", text="", segments=(FileAttachment(name="a", url=CONTROL),)),
        Message(role="user", text="", ext={"pod.x": Raw(json.encode(CONTROL))}),
        Reasoning(text=CONTROL),
        ToolCall(call="c", name="n", arguments=CONTROL),
        ToolResult(call="c", output=CONTROL),
        ToolResult(call="c", summary=CONTROL),
    ],
)
def test_an_item_has_the_size_of_its_json_and_a_fixed_part(item: Item) -> None:
    assert ITEM + 600 < of_item(item) < ITEM + 800


@pytest.mark.parametrize("done", [TextDone(text="a\n"), ReasoningDone(text="a\n")])
def test_the_whole_text_of_earlier_pieces_counts_once_in_a_turn(done: Event) -> None:
    assert in_turn([TextDelta(text="a"), ReasoningDelta(text="\n"), done], NO_TURN) == 3 + ITEM


@pytest.mark.parametrize(("done", "more"), [("abcd", 0), ("abcdef", 2), ("x", 0)])
def test_complete_arguments_count_as_far_as_they_are_longer_than_their_fragments(done: str, more: int) -> None:
    turn = OpenTurn(id="t", message="m", calls={"c": CallBlock(call="c", name="n", parts=["ab", "cd"])})
    state = SessionState(id="s", turn=turn)
    assert in_turn([ToolCallArguments(call="c", json="ab"), ToolCallArguments(call="c", json="cd")], state) == 4
    assert in_turn([ToolCallArguments(call="c", json=done, done=True)], state) == more


@pytest.mark.parametrize("turn", [None, OpenTurn(id="t", message="m")])
def test_complete_arguments_without_fragments_count_whole(turn: OpenTurn | None) -> None:
    assert in_turn([ToolCallArguments(call="c", json="abcd", done=True)], SessionState(id="s", turn=turn)) == 4


def test_a_text_that_a_message_has_as_text_and_as_segments_counts_once() -> None:
    plain = Message(role="user", text=CONTROL)
    split = Message(role="user", text=CONTROL, segments=(Text(text=CONTROL),))
    assert of_item(plain) < of_item(split) < of_item(plain) + 100
    assert in_turn([MessageAppended(message=split)], NO_TURN) == of_item(split)


def test_a_whole_text_that_contradicts_its_pieces_counts_in_a_turn() -> None:
    assert in_turn([TextDelta(text="a"), Gap(text="contradicted"), TextDone(text="bcd")], NO_TURN) == 4 + ITEM


@pytest.mark.parametrize(
    "event",
    [
        ToolCallStarted(call="c", name="n"),
        ToolCallFinished(call="c", output="x"),
        ErrorReported(cause="internal", text="x"),
        QuestionAsked(text="?"),
        MessageAppended(message=Message(role="user", text="x")),
    ],
)
def test_each_item_of_a_turn_counts_with_its_fixed_part(event: Event) -> None:
    assert ITEM < in_turn([event], NO_TURN) < ITEM + 200


@pytest.mark.parametrize("event", [ToolOutputDelta(text="x"), TurnEnded(end="completed", text="x")])
def test_an_event_that_no_later_client_is_sent_does_not_count_in_a_turn(event: Event) -> None:
    assert in_turn([event], NO_TURN) == 0


@pytest.mark.parametrize(
    ("command", "weight"),
    [
        (Compact(request="r"), 1),
        (RenameSession(title="abc", session="s"), 4),
        (SubmitInput(segments=(Text(text="abc"), Text(text="de"))), 5 + 2 * VALUE),
        (OpenSession(metadata=Raw(b'{"a":[1,2]}')), 11),
        (OpenSession(supports=("ab",), ext={"smooth.x": Raw(b"1")}), 2 + 9 + 2 * VALUE),
    ],
)
def test_a_command_weighs_its_texts_and_its_values(command: Command, weight: int) -> None:
    assert of_values(command) == weight
