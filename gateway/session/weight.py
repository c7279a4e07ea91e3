"""Estimate the memory of events, transcripts and commands: the characters of texts whose length peers choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, assert_never

from msgspec import Raw, Struct, structs

from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.canonical.events import (
    HistorySnapshot,
    MessageAppended,
    ReasoningDelta,
    ReasoningDone,
    TextDelta,
    TextDone,
    ToolCallArguments,
    ToolCallFinished,
    ToolOutputDelta,
    TurnEnded,
)
from dragoman.mappings.canonical.values import Item, Message, Reasoning, ToolCall, ToolResult

VALUE = 64  # bytes of an object beside its content, as of a value in the metadata of a command

_TEXT = attrgetter("text")
_ONLY_TEXT = frozenset({TextDelta})


def of_events(events: Sequence[Event]) -> tuple[int, int]:
    """Return the weight of a batch, and how much of it repeats text that the turn has already.

    Deltas of text, which are nearly all, are weighed without a call for each.
    """
    if _ONLY_TEXT.issuperset(map(type, events)):
        return sum(map(len, map(_TEXT, events))), 0
    weight = repeated = 0
    for event in events:
        kind = type(event)
        if kind in _WITH_TEXT:
            weight += len(_TEXT(event))
            if kind in _REPEATS:
                repeated += len(_TEXT(event))
        elif kind in _WEIGHTS:
            weight += _WEIGHTS[kind](event)
    return weight, repeated


def of_item(item: Item) -> int:
    """Return the weight of one item of a transcript."""
    match item:
        case Message() | Reasoning():
            return len(item.text)
        case ToolCall():
            return len(item.arguments)
        case ToolResult():
            return len(item.output or "") + len(item.summary or "")
        case _:
            assert_never(item)


def of_command(command: Command) -> int:
    """Return the weight of a command: of its texts, and of each value that a client can give it."""
    weight, values = 0, list[Any](_fields(command))
    while values:
        value = values.pop()
        if isinstance(value, str | bytes):
            weight += len(value)
        elif isinstance(value, Raw):
            weight += memoryview(value).nbytes
        elif isinstance(value, dict):
            weight += VALUE * len(value)
            values += [*value, *value.values()]
        elif isinstance(value, list | tuple | set | frozenset):
            weight += VALUE * len(value)
            values += value
        elif isinstance(value, Struct):
            values += _fields(value)
    return weight


def _fields(struct: Struct) -> list[Any]:
    return list(filter(None, structs.astuple(struct)))


def _result(event: ToolCallFinished) -> int:
    return len(event.output or "") + len(event.summary or "")


def _history(event: HistorySnapshot) -> int:
    return sum(map(of_item, event.items)) + sum(len(bytes(raw)) for raw in (event.ext or {}).values())


_REPEATS = frozenset((TextDone, ReasoningDone, TurnEnded))
"""Events with the whole text of pieces that came before (docs/translation.md, rule 4.2)."""

_WITH_TEXT = frozenset((TextDelta, TextDone, ReasoningDelta, ReasoningDone, ToolOutputDelta, TurnEnded))

_WEIGHTS: dict[type, Callable[[Any], int]] = {
    ToolCallArguments: lambda event: len(event.json),
    ToolCallFinished: _result,
    MessageAppended: lambda event: of_item(event.message),
    HistorySnapshot: _history,
}
