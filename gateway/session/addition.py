"""Add the items to the transcript that only a history of the same conversation has (docs/translation.md, rule 4.7).

A backend may know less of a conversation than the gateway saw: a pod logs no answer that was cancelled, and compacts
its log. `Addition` is for a whole history, and for the newest page of one:

    of the history                            in the transcript
    a run that is there                       is found by its id, input and answer (same_runs.py), and completed
    a run that is not there                   is added before the next run that both have, else at the end
    an answer                                 is one text, whose beginning and end are compared with what was seen
    an answer that was seen, or more of it    stays as it was seen: a store may be behind, or divide it at its calls
    an answer that was seen in part           becomes the whole answer, under its id
    an answer that contradicts what was seen  adds its blocks that were not seen, before the end that both have
    a call, result, thought or system item    stays if it is there anywhere: a log may order them otherwise
    anything else                             is added before the next block of its run that both have, else after it

A history that is added twice adds nothing the second time: every run of it is in the transcript then, in its order.
Items that only the transcript has stay where they are. The cost is linear.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import chain, dropwhile

from msgspec import structs

from dragoman.gateway.session.same_runs import HistoryRun, same_runs, split_runs
from dragoman.mappings.canonical.values import Item, Message, Reasoning, ToolCall, is_chat_message
from dragoman.mappings.dialect import NewId

Mark = tuple[type, str, str]


class Addition:
    """The transcript to which a history is added."""

    def __init__(self, transcript: Sequence[Item], new_id: NewId) -> None:
        self._known = split_runs(transcript)
        self._new_id = new_id
        self._marks = {_mark(item) for item in transcript if not is_chat_message(item)}
        self._ids = {"", *(item.id for item in transcript if isinstance(item, Message))}

    def of(self, added: Sequence[Item]) -> list[Item]:
        """Return the transcript with those items of the history `added` that it lacks."""
        received = split_runs(added)
        same = same_runs(received, self._known)
        items = [run.items for run in self._known]
        last, new = -1, list[Item]()
        for run in received:
            place = same.get(run.place)
            if place is None:
                turn = self._new_id()
                new += chain.from_iterable(self._fresh(item, turn) for item in run.items)
                continue
            items[place] = self._completed(self._known[place], run)
            if place > last:
                items[place], last, new = [*new, *items[place]], place, []
        return [*chain.from_iterable(items), *new]

    def _completed(self, known: HistoryRun, received: HistoryRun) -> list[Item]:
        """Return the items of a known run and those that only `received` has.

        Each of those is before the next block that both have.
        """
        cut_begin, cut_stop = known.missing_part(received)
        bounds = [*received.blocks, len(received.answer)]
        begin, stop = bounds[bisect_left(bounds, cut_begin)], bounds[bisect_right(bounds, cut_stop) - 1]
        known = known.lengthened(received.answer[stop:cut_stop], received.answer[cut_begin:begin])
        # Whole blocks are missing now, those from `begin` to `stop`.
        completed, rest = list[Item](), deque(known.items)
        at = seen = 0  # characters of the two answers that were passed: of `received`, and of the known one
        for item in received.rest:
            if not is_chat_message(item) or (item.text and begin <= at < stop):
                place = at if at < begin else max(at, stop) + len(known.answer) - len(received.answer)
                while rest and not (seen >= place and is_chat_message(rest[0], "assistant")):
                    seen += _length(rest[0])
                    completed.append(rest.popleft())
                completed += self._fresh(item, known.turn)
            at += _length(item)
        return [*completed, *rest]

    def _fresh(self, item: Item, turn: str) -> list[Item]:
        """Return an item to be added to this turn, under an id of its own; nothing if the transcript has it."""
        if not is_chat_message(item) and _mark(item) in self._marks:
            return []
        if not isinstance(item, Message):
            return [structs.replace(item, turn=turn)]
        own = structs.replace(item, id=item.id if item.id not in self._ids else self._new_id(), turn=turn)
        self._ids.add(own.id)
        return [own]


def _length(item: Item) -> int:
    return len(item.text) if is_chat_message(item, "assistant") else 0


def add_listed(listed: Sequence[Item], transcript: Sequence[Item], new_id: NewId) -> list[Item] | None:
    """Return the transcript with the items that a list of the same conversation adds; None if it adds none.

    A list may begin inside of a run: an answer without its input has no place among the known ones.
    """
    items = Addition(transcript, new_id).of(whole_runs(listed))
    return items if items != transcript else None


def whole_runs(items: Sequence[Item]) -> tuple[Item, ...]:
    """Return the items from the first input on."""
    return tuple(dropwhile(lambda item: not is_chat_message(item, "user"), items))


def reach(items: Sequence[Item], added: Sequence[Item]) -> int:
    """Return the number of items up to the last one that is also in `added`; the number of all if there is none."""
    marks = {_mark(item) for item in added}
    return next((n for n in range(len(items), 0, -1) if _mark(items[n - 1]) in marks), len(items))


def _mark(item: Item) -> Mark:
    """Return a key that is the same for two items that count as one."""
    if isinstance(item, Message):
        return Message, item.role, item.text
    if isinstance(item, Reasoning):
        return Reasoning, "", item.text
    return type(item), item.call, item.name if isinstance(item, ToolCall) else ""
