"""A session's history: ids for what a backend tells without any, and pages for who asks.

A pod's entries have no ids; ours are promised for the life of the session (translation.md 3.1). So when a history comes
again, after a reconnect or a compaction, what stands unchanged at its beginning keeps the ids it had.
"""

from __future__ import annotations

from typing import assert_never

from msgspec import structs

from mappings.canonical import SessionState
from mappings.canonical.events import HistorySnapshot
from mappings.canonical.values import Item, Message, Reasoning, ToolCall, ToolResult
from mappings.dialect import NewId

__all__ = ["page", "renew", "trim"]


def renew(event: HistorySnapshot, state: SessionState, new_id: NewId) -> HistorySnapshot:
    """The history with ids and turns: those of `state` as far as both begin alike, fresh ones from there.

    A rotated history does not speak of the input that is being worked on; it is kept behind it, unless the history has
    it.
    """
    items: list[Item] = []
    turn, alike = "", True
    for i, item in enumerate(event.items):
        old = state.transcript[i] if alike and i < len(state.transcript) else None
        alike = old is not None and _same(old, item)
        if alike and old is not None:
            items.append(old)
            turn = old.turn
            continue
        if isinstance(item, Message):
            if item.role == "user":
                turn = new_id()
            items.append(structs.replace(item, id=item.id or new_id(), turn=turn))
        else:
            items.append(structs.replace(item, turn=turn))
    if event.rotated:
        tail = items[-8:]  # the input being worked on stands at a history's end, behind what it pulled in
        items += [i for i in state.transcript[state.fresh :] if not any(_same(i, known) for known in tail)]
    return structs.replace(event, items=tuple(items))


def _same(old: Item, new: Item) -> bool:
    if isinstance(old, Message) and isinstance(new, Message):
        return old.role == new.role and old.text == new.text
    return type(old) is type(new) and structs.replace(new, at=old.at, turn=old.turn, ext=old.ext) == old


def page(state: SessionState, request: str, limit: int, cursor: str) -> HistorySnapshot | None:
    """Messages of user and assistant, newest first, from before the message `cursor`; None if there is none such."""
    messages = state.messages()
    if cursor:
        at = next((i for i, message in enumerate(messages) if message.id == cursor), None)
        if at is None:
            return None
        messages = messages[:at]
    shown = messages[-limit:]
    more = len(messages) > len(shown)
    return HistorySnapshot(
        request=request, items=tuple(reversed(shown)), next_cursor=shown[0].id if more and shown else None
    )


def trim(state: SessionState, limit: int) -> int:
    """Drop the oldest items beyond `limit` bytes of text; how many."""
    size, keep = 0, 0
    for item in reversed(state.transcript):
        size += _size(item)
        if size > limit:
            break
        keep += 1
    dropped = len(state.transcript) - keep
    if dropped:
        del state.transcript[:dropped]
        state.fresh = max(0, state.fresh - dropped)
    return dropped


def _size(item: Item) -> int:
    match item:
        case Message() | Reasoning():
            return len(item.text)
        case ToolCall():
            return len(item.arguments)
        case ToolResult():
            return len(item.output or "") + len(item.summary or "")
        case _:
            assert_never(item)
