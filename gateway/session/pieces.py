"""Pieces of streamed content, and how neighbours are joined: text, reasoning, arguments and output of tools."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from msgspec import structs

from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.events import ReasoningDelta, TextDelta, ToolCallArguments, ToolOutputDelta

Stream = tuple[str, ...]
"""The stream that a piece belongs to. Pieces of one stream may be joined if nothing is between them."""

_TEXT: Stream = ("text",)
_CONTENT_FIELD = {TextDelta: "text", ReasoningDelta: "text", ToolOutputDelta: "text", ToolCallArguments: "json"}


def stream_of(event: Event) -> Stream | None:
    """Return the stream of an event, None if it is no piece of any."""
    match event:
        case TextDelta():
            return _TEXT
        case ReasoningDelta():
            return ("reasoning",)
        case ToolCallArguments(done=False):
            return ("arguments", event.call, event.name)
        case ToolOutputDelta():
            return ("output", event.call)
        case _:
            return None


def stream_of_all(events: Sequence[Event]) -> Stream | None:
    """Return the stream to which all of these events belong, None if they do not belong to one."""
    stream = stream_of(events[0]) if events else None
    return stream if stream is not None and all(stream_of(event) == stream for event in events) else None


def content_of_piece(piece: Event) -> str:
    content: str = getattr(piece, _CONTENT_FIELD[type(piece)])
    return content


def with_content(piece: Event, content: str) -> Event:
    """Return a piece of the same stream with this content."""
    return structs.replace(piece, **{_CONTENT_FIELD[type(piece)]: content, "ext": None})


def join_pieces(events: Sequence[Event]) -> list[Event]:
    """Return the events, with adjacent pieces of each stream joined."""
    joined: list[Event] = []
    for stream, group in groupby(events, stream_of):
        some = [*group]
        if stream is None or len(some) == 1:
            joined += some
        else:
            joined.append(with_content(some[0], "".join(map(content_of_piece, some))))
    return joined
