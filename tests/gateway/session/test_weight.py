"""The weight of events: it counts every field that a peer can make long, and a batch weighs as much as its events."""

from __future__ import annotations

import pytest
from msgspec import Raw

from dragoman.gateway.session.weight import VALUE, of_command, of_events, of_item
from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.canonical.commands import Compact, OpenSession, RenameSession, SubmitInput
from dragoman.mappings.canonical.events import (
    HistorySnapshot,
    MessageAppended,
    ReasoningDone,
    StatusChanged,
    TextDelta,
    TextDone,
    ToolCallArguments,
    ToolCallFinished,
    ToolOutputDelta,
    TurnEnded,
)
from dragoman.mappings.canonical.values import Item, Message, Reasoning, Text, ToolCall, ToolResult


@pytest.mark.parametrize(
    ("event", "weight"),
    [
        (TextDelta(text="abc"), 3),
        (TurnEnded(end="completed", text="abcd"), 4),
        (ToolCallArguments(json="{}"), 2),
        (ToolOutputDelta(text="ab"), 2),
        (ToolCallFinished(output="ab", summary="c"), 3),
        (MessageAppended(message=Message(role="user", text="ab")), 2),
        (HistorySnapshot(items=(Message(role="user", text="ab"),), ext={"pod.entries": Raw(b"[1]")}), 5),
        (StatusChanged(status="idle"), 0),
    ],
)
def test_the_weight_of_an_event_counts_each_field_that_a_peer_can_make_long(event: Event, weight: int) -> None:
    assert of_events([event])[0] == weight
    assert of_events([event, TextDelta(text="x"), event])[0] == 2 * weight + 1


def test_the_memory_weight_of_a_text_batch_includes_its_text() -> None:
    assert of_events([TextDelta(text="ab"), TextDelta(text="c")]) == (3, 0)


@pytest.mark.parametrize(
    "whole", [TextDone(text="ab"), ReasoningDone(text="ab"), TurnEnded(end="completed", text="ab")]
)
def test_the_whole_text_of_earlier_pieces_counts_as_repeated(whole: Event) -> None:
    assert of_events([TextDelta(text="a"), TextDelta(text="b"), whole]) == (4, 2)


@pytest.mark.parametrize(
    ("item", "weight"),
    [
        (Message(role="user", text="ab"), 2),
        (Reasoning(text="abc"), 3),
        (ToolCall(call="c", name="n", arguments="{}"), 2),
        (ToolResult(call="c", output="abcd"), 4),
    ],
)
def test_the_memory_weight_of_an_item_includes_its_text(item: Item, weight: int) -> None:
    assert of_item(item) == weight


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
    assert of_command(command) == weight
