"""Hide from clients what the option `show` of a route excludes (docs/translation.md, rule 3.8).

With `tools = "names"` clients see which tools ran, but not their arguments and results. These are removed where the
events of the backend come in, so that no client, late joiner or history page can be shown them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Raw, structs

from dragoman.mappings.canonical.events import (
    HistorySnapshot,
    LifecycleReport,
    Reply,
    StateSnapshot,
    ToolCallArguments,
    ToolCallFinished,
    ToolOutputDelta,
)
from dragoman.mappings.canonical.values import Item, ToolCall, ToolResult
from dragoman.mappings.dialect import Loss
from dragoman.mappings.extras import raw, read_raw

KEPT = "{}"  # an empty object, so that clients can still parse the arguments


def tool_names_only(events: Iterable[Any]) -> tuple[list[Any], list[Loss]]:
    """Return the events without arguments and results of tools, and a loss for each event that had some."""
    shown: list[Any] = []
    losses: list[Loss] = []
    for event in events:
        narrow = NARROW.get(type(event))
        narrowed = event if narrow is None else narrow(event)
        if narrowed is not event:
            losses.append(Loss(kind=type(event).__name__, why='the route shows tools = "names"'))
        if narrowed is not None:
            shown.append(narrowed)
    return shown, losses


def _arguments(event: ToolCallArguments) -> ToolCallArguments | None:
    return structs.replace(event, json=KEPT, ext=None) if event.done else None


def _finished(event: ToolCallFinished) -> ToolCallFinished:
    return structs.replace(event, summary="", output=None, ext=None)


def _history(event: HistorySnapshot) -> HistorySnapshot:
    """Also remove `ext`, which holds the entries of a pod unchanged."""
    return structs.replace(event, items=tuple(map(_item, event.items)), ext=None)


def _item(item: Item) -> Item:
    if isinstance(item, ToolCall):
        return structs.replace(item, arguments=KEPT, ext=None)
    if isinstance(item, ToolResult):
        return structs.replace(item, summary="", output=None, ext=None)
    return item


def _reply(event: Reply) -> Reply:
    """Remove the `events` in the result of a codewhale: the calls of a `prompt/run` may be among them."""
    result = read_raw(event.result, dict[str, Raw])
    if result is None or read_raw(result.get("events"), list[Raw]) in (None, []):
        return event
    return structs.replace(event, result=raw(result | {"events": []}))


def _nothing(_event: Any) -> None:
    return None


NARROW: dict[type, Callable[[Any], Any]] = {
    ToolCallArguments: _arguments,
    ToolCallFinished: _finished,
    ToolOutputDelta: _nothing,
    StateSnapshot: _nothing,
    LifecycleReport: _nothing,
    HistorySnapshot: _history,
    Reply: _reply,
}
