"""A session's history: ids for what a backend tells without any, and pages for who asks.

A pod's entries have no ids; ours are promised for the life of the session (docs/translation.md, rule 3.1). So when a
history comes again, what stands unchanged at its beginning keeps the ids it had.

A backend may know less of a conversation than the gateway saw: a pod logs no answer that was cancelled, and compacts
its log. So a history of the same conversation only adds to the transcript (docs/translation.md, rule 4.7).
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from dragoman.gateway.session.addition import Addition
from dragoman.gateway.session.weight import of_item
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.canonical.events import HistorySnapshot
from dragoman.mappings.canonical.values import Item, Message, SessionSummary
from dragoman.mappings.dialect import NewId

__all__ = ["page", "renew", "summary", "trim"]

TAIL = 8  # items: the input being worked on stands at a history's end, with what it pulled in


def renew(event: HistorySnapshot, state: SessionState, new_id: NewId) -> HistorySnapshot:
    """The history with ids and turns: those of `state` as far as both begin alike, fresh ones from there.

    What user and assistant said is compared by itself: a log may order calls and results otherwise than they came.

    A rotated history does not speak of the input that is being worked on; it is kept behind it, unless the history has
    it.
    """
    if event.conversation and event.conversation == state.conversation and state.transcript:
        return _added(event, state, new_id)
    items: list[Item] = []
    turn = ""
    everything, spoken = _Prefix(state.transcript), _Prefix([i for i in state.transcript if _is_spoken(i)])
    for item in event.items:
        old = everything.next(item)
        if _is_spoken(item):
            old = spoken.next(item)
        if old is not None:
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
        for own in state.transcript[state.fresh :]:
            at = _near_end(own, items)
            if at is None:
                items.append(own)
            else:
                items[at] = own
    return structs.replace(event, items=tuple(items))


def _near_end(own: Item, items: Sequence[Item]) -> int | None:
    """Return where an item of the input that is being worked on stands in a history, None if nowhere."""
    return next((i for i in reversed(range(max(0, len(items) - TAIL), len(items))) if _same(own, items[i])), None)


def _added(event: HistorySnapshot, state: SessionState, new_id: NewId) -> HistorySnapshot:
    """The transcript, with what a history of the same conversation tells beyond it."""
    if event.rotated and event.compacted:
        own = state.transcript[state.fresh :]
        told = next((n for n, item in enumerate(own) if _near_end(item, event.items) is None), len(own))
        return structs.replace(event, items=tuple(state.transcript), summed_up=state.fresh + told)
    summary = (event.runs[0].first if event.runs else len(event.items)) if event.compacted else 0
    items, told = Addition(state.transcript, new_id).of(event.items[summary:])
    return structs.replace(event, items=tuple(items), summed_up=told if event.compacted else 0)


class _Prefix:
    """Items of which each is compared with the next that comes, until two differ."""

    def __init__(self, items: list[Item]) -> None:
        self._rest = iter(items)

    def next(self, item: Item) -> Item | None:
        """What was known of `item`, if all before it were known too."""
        old = next(self._rest, None)
        if old is not None and _same(old, item):
            return old
        self._rest = iter(())
        return None


def _is_spoken(item: Item) -> bool:
    return isinstance(item, Message) and item.role != "system"


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


def summary(state: SessionState) -> SessionSummary:
    """A session as a row of a list."""
    messages = state.messages()
    known = state.listed.title if state.listed is not None else ""
    title = state.title or next((m.text for m in messages if m.role == "user"), "") or known or state.backend.name
    count = max(len(messages), state.listed.messages if state.listed is not None else 0)  # it may count more than text
    return SessionSummary(
        session=state.id,
        title=title,
        updated_at=state.updated_at or state.opened_at,
        messages=count,
        status=state.status,
        archived=state.archived,
        ext=state.ids,
    )


def trim(state: SessionState, limit: int) -> int:
    """Drop the oldest items beyond `limit` bytes of text; how many."""
    size, keep = 0, 0
    for item in reversed(state.transcript):
        size += of_item(item)
        if size > limit:
            break
        keep += 1
    dropped = len(state.transcript) - keep
    if dropped:
        del state.transcript[:dropped]
        state.fresh = max(0, state.fresh - dropped)
        state.summed_up = max(0, state.summed_up - dropped)
    return dropped
