"""The history of a session: assign ids to its items, merge it into the transcript, and return pages of it.

A pod's entries have no ids; the gateway assigns ids that are valid for the life of the session (docs/translation.md,
rule 3.1). So `renew` keeps the ids of the unchanged items at the beginning of a repeated history.

A backend may know less of a conversation than the gateway saw. So a history of the same conversation only adds to the
transcript: `addition` does so for a whole history or its newest page, `stored_messages` for a store that has only
messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice

from msgspec import structs

from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.session.addition import Addition, reach, whole_runs
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.canonical.commands import GetHistory
from dragoman.mappings.canonical.events import HistorySnapshot, Reply
from dragoman.mappings.canonical.values import Failure, Item, Message, is_chat_message
from dragoman.mappings.dialect import Dialect, Loss, NewId

LEFT_OUT = "a history has the messages of user and assistant only"
PAGE = 50  # messages of a page, if the client does not say how many: docs/dialects/smooth.md, section 5
TAIL = 8  # items at the end of a history: the input being worked on is among them, with the items that it added


def renew(event: HistorySnapshot, state: SessionState, new_id: NewId) -> HistorySnapshot:
    """Return the history with ids and turns: those of `state` as far as both begin alike, fresh ones from there.

    Messages of user and assistant are compared by themselves: a log may order calls and results otherwise.

    A rotated history may lack the input that is being worked on. Then the input is kept after it.
    """
    if event.conversation and event.conversation == state.conversation and state.transcript:
        return _added(event, state, new_id)
    items: list[Item] = []
    turn = ""
    everything, spoken = _Prefix(state.transcript), _Prefix([i for i in state.transcript if is_chat_message(i)])
    for item in event.items:
        old = everything.next(item)
        if is_chat_message(item):
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
    """Return the index of an item among the last TAIL items of a history; None if it is not there."""
    return next((i for i in reversed(range(max(0, len(items) - TAIL), len(items))) if _same(own, items[i])), None)


def _added(event: HistorySnapshot, state: SessionState, new_id: NewId) -> HistorySnapshot:
    """Return the transcript merged with a history of the same conversation."""
    if event.rotated and event.compacted and not event.runs:
        own = state.transcript[state.fresh :]
        summed_up = next((n for n, item in enumerate(own) if _near_end(item, event.items) is None), len(own))
        return structs.replace(event, items=tuple(state.transcript), summed_up=state.fresh + summed_up)
    summary = (event.runs[0].first if event.runs else len(event.items)) if event.compacted else 0
    received = event.items[summary:]
    # The input of the first run may stand at the end of the summary.
    known = without_cut_off(state, received) if event.status == "running" else None
    items = Addition(known or state.transcript, new_id).of(whole_runs(received) if event.rotated else received)
    return structs.replace(event, items=tuple(items), summed_up=reach(items, received) if event.compacted else 0)


def without_cut_off(state: SessionState, received: Sequence[Item]) -> list[Item] | None:
    """Return the transcript without the items of the last turn, if its run may continue; else None.

    That is so if the turn failed with its connection, and `received` ends with its input.

    The input is not doubled: an equal one in `received` replaces it if it is in the transcript, too.
    """
    if not state.cut_off:
        return None
    first = next((item for item in state.transcript if item.turn == state.cut_off), None)
    asked = next((item for item in reversed(received) if is_chat_message(item, "user")), None)
    if first is None or asked is None or not _same(first, asked):
        return None
    kept = asked if received is state.transcript else first
    return [item for item in state.transcript if item is kept or item.turn != state.cut_off]


class _Prefix:
    """Compares new items with known ones, one by one, until two of them differ."""

    def __init__(self, items: list[Item]) -> None:
        self._rest = iter(items)

    def next(self, item: Item) -> Item | None:
        """Return the known item that equals `item`, if all items before were equal, too; else None."""
        old = next(self._rest, None)
        if old is not None and _same(old, item):
            return old
        self._rest = iter(())
        return None


def _same(old: Item, new: Item) -> bool:
    if isinstance(old, Message) and isinstance(new, Message):
        return old.role == new.role and old.text == new.text
    return type(old) is type(new) and structs.replace(new, at=old.at, turn=old.turn, ext=old.ext) == old


def without_unstored(event: HistorySnapshot, received: Sequence[Item]) -> HistorySnapshot:
    """Return a history without its last input, if that has no answer and the backend's own history lacks it.

    `received` is that history. The backend was lost before it stored the input. Its client was told that the turn
    failed, and the model does not know the input.
    """
    last = event.items[-1] if event.items else None
    stored = next((item for item in reversed(received) if is_chat_message(item, "user")), None)
    if (
        last is None
        or stored is None
        or not is_chat_message(last, "user")
        or last.id == stored.id
        or _same(last, stored)
    ):
        return event
    return structs.replace(event, items=event.items[:-1], summed_up=min(event.summed_up, len(event.items) - 1))


# -- pages ----------------------------------------------------------------------------------------------


def answer_page(state: SessionState, command: GetHistory, passed: list[Item] | None = None) -> HistorySnapshot | Reply:
    """Return messages of user and assistant, newest first, before the message `cursor`; a failure if it is unknown.

    The items between them are added to `passed`.
    """
    between: list[Item] = []
    cursor = command.cursor
    newest_first = zip(range(len(state.transcript), 0, -1), reversed(state.transcript), strict=True)
    found = (n for n, item in newest_first if isinstance(item, Message) and item.id == cursor and is_chat_message(item))
    end = next(found, None) if cursor else len(state.transcript)
    if end is None:
        return Reply(request=command.request, failure=Failure(cause="invalid", text=f"unknown cursor {cursor!r}"))
    messages = state.newest_messages(end, between)
    if cursor:
        next(messages)
        between.clear()  # they were counted for the page before
    shown = [*islice(messages, command.limit or PAGE)]
    if passed is not None:
        passed += between
    next_cursor = shown[-1].id if next(messages, None) is not None and shown else None
    return HistorySnapshot(request=command.request, items=tuple(shown), next_cursor=next_cursor)


def count_left_out(
    ledger: Ledger, state: SessionState, source: Dialect, target: Dialect, items: Iterable[Item]
) -> None:
    """Count the items that a client is not shown: its dialect's history has only messages of user and assistant."""
    if source.name == target.name:
        return
    kinds = Counter("system" if isinstance(item, Message) else str(item.__struct_config__.tag) for item in items)
    losses = [Loss(kind="HistorySnapshot", field=f"items.{kind}", why=LEFT_OUT, count=n) for kind, n in kinds.items()]
    ledger.record(losses, session=state.id, source=source.name, target=target.name)
