"""Estimate the memory of events and commands: the characters of streamed and large texts, and anything else as JSON.

The data for a new client (the transcript and the open turn) is counted as JSON, too: a control character takes six
bytes there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from msgspec import Raw, Struct, json, structs

from dragoman.mappings.canonical import Event, SessionState
from dragoman.mappings.canonical.events import (
    ApprovalRequested,
    ErrorReported,
    Gap,
    InteractionRequired,
    MessageAppended,
    QuestionAnswered,
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
from dragoman.mappings.canonical.state import OpenTurn
from dragoman.mappings.canonical.values import Item, Message

VALUE = 64  # bytes of an object beside its content, as of a value in the metadata of a command
ITEM = 300  # bytes of an item of a transcript beside its JSON: in memory, and as rendered by a dialect

_TEXT = attrgetter("text")
_EXT = attrgetter("ext")
_ONLY_TEXT = frozenset({TextDelta})
_ENCODE = json.Encoder().encode


def of_events(events: Sequence[Event]) -> int:
    """Return the weight of a batch. Deltas of text, which are nearly all, are weighed without a call for each."""
    if _ONLY_TEXT.issuperset(map(type, events)):
        return sum(map(len, map(_TEXT, events)))
    weight = 0
    for event in events:
        kind = type(event)
        if kind in _WITH_TEXT:
            weight += len(_TEXT(event))
        elif isinstance(event, ToolCallArguments):
            weight += len(event.json) + len(event.call) + len(event.name)
        elif isinstance(event, ToolCallFinished):  # as JSON an output of 16 MiB would take 45 ms
            weight += len(event.output or "") + len(event.summary or "") + len(event.call) + len(event.name)
        else:
            weight += len(_ENCODE(event))
            continue
        if (ext := _EXT(event)) is not None:
            weight += len(_ENCODE(ext))
    return weight


def in_turn(events: Sequence[Event], state: SessionState) -> int:
    """Return the bytes of JSON that these events add to the data for a client that joins their turn.

    A finished block repeats the text of its deltas, which counts once. After a Gap it contradicts them, and counts. The
    complete arguments of a call repeat their fragments, which the open turn has.
    """
    size, contradicts = 0, False
    for event in events:
        kind = type(event)
        if kind in _DONE:
            size += ITEM + (of_text(_TEXT(event)) if contradicts else 0)
        elif isinstance(event, ToolCallArguments):
            size += _arguments(event, state.turn)
        elif isinstance(event, MessageAppended):
            size += of_item(event.message)
        elif kind in _IN_TURN:
            size += _IN_TURN[kind](event)
        contradicts = kind is Gap
    return size


def of_text(text: str) -> int:
    """Return the bytes of a text in JSON."""
    return len(_ENCODE(text)) - len('""')


def of_item(item: Item | Event) -> int:
    """Return the bytes of one item of a transcript, or of an event that is shown to a client which joins its turn.

    A message with segments has the same text twice, of which clients are sent one.
    """
    size = ITEM + len(_ENCODE(item))
    return size - len(_ENCODE(item.text)) if type(item) is Message and item.segments else size


def _arguments(event: ToolCallArguments, turn: OpenTurn | None) -> int:
    call = turn.calls.get(event.call) if turn is not None and event.done else None
    fragments = of_text("".join(call.parts)) if call is not None else 0
    return max(0, of_text(event.json) - fragments)


def of_values(*given: object) -> int:
    """Return the weight of commands or other values: of their texts, and of each value that a peer can put there."""
    values: list[Any] = [*given]
    weight = 0
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
            values += filter(None, structs.astuple(value))
    return weight


_DONE = frozenset((TextDone, ReasoningDone))
"""Events with the whole text of pieces that came before (docs/translation.md, rule 4.2)."""

_WITH_TEXT = frozenset((TextDelta, TextDone, ReasoningDelta, ReasoningDone, ToolOutputDelta, TurnEnded))

_IN_TURN: dict[type, Callable[[Any], int]] = {
    **dict.fromkeys((TextDelta, ReasoningDelta), lambda event: len(_ENCODE(event.text)) - len('""')),
    **dict.fromkeys((ToolCallStarted, ToolCallFinished, ErrorReported), of_item),
    **dict.fromkeys((ApprovalRequested, InteractionRequired, QuestionAsked, QuestionAnswered), of_item),
}
