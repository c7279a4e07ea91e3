"""What a backend's history tells beyond the transcript: messages that were missed, in their place.

    of the history                            in the transcript
    a message that is there                   stays as it was seen, with its id and time
    an answer that was seen in part           becomes the whole answer, under its id; its blocks may be one there
    a call, result, thought or system item    stays if it is there anywhere: a log may order them otherwise
    anything else                             is added before the next message that both have, else at the end

What only the transcript has stays where it is. Each step looks up where a message stands: the cost is linear.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from msgspec import structs

from dragoman.mappings.canonical.values import Item, Message, Reasoning, ToolCall
from dragoman.mappings.dialect import NewId

__all__ = ["Addition"]

Mark = tuple[type, str, str]


class Addition:
    """One transcript that a history is added to."""

    def __init__(self, transcript: Sequence[Item], new_id: NewId) -> None:
        self._known = list(transcript)
        self._new_id = new_id
        self._places: dict[Mark, list[int]] = {}
        for i, item in enumerate(self._known):
            self._places.setdefault(_mark(item), []).append(i)
        self._users = [i for i, item in enumerate(self._known) if _is_spoken(item, "user")]
        self._answers = [i for i, item in enumerate(self._known) if _is_spoken(item, "assistant")]
        self._at = 0  # what stands before was compared

    def of(self, told: Sequence[Item]) -> tuple[list[Item], int]:
        """Return the transcript with what `told` has beyond it, and how many items, counted from its start, that has.

        Items behind those are in the transcript alone.
        """
        result: list[Item] = []
        waiting: list[Item] = []
        copied, turn, is_new_run = 0, "", False
        for item in told:
            is_spoken = _is_spoken(item, "user", "assistant")
            if not is_spoken and _mark(item) in self._places:
                continue
            place = None if is_new_run and not _is_spoken(item, "user") else self._find(item)
            if place is not None:
                result += [*self._known[copied:place], *waiting]
                waiting, is_new_run, copied, turn = [], False, place, self._known[place].turn
                self._at = place + 1
                continue
            if _is_spoken(item, "user"):
                turn, is_new_run = self._new_id(), True
            waiting.append(self._fresh(item, turn))
        result += [*self._known[copied:], *waiting]
        return result, _reach(result, told)

    def _find(self, item: Item) -> int | None:
        """Return where a message stands behind what was compared, None if nowhere."""
        if not isinstance(item, Message) or item.role == "system":
            return None
        found = _next(self._places.get(_mark(item), ()), self._at)
        if item.role == "user":
            return found
        end = _next(self._users, self._at)
        end = len(self._known) if end is None else end
        return found if found is not None and found < end else self._find_parts(item, end)

    def _find_parts(self, item: Message, end: int) -> int | None:
        """Return the last of the blocks in which an answer was seen; what they lack of it is added to that one."""
        last, rest = None, item.text
        while rest and (place := _next(self._answers, self._at)) is not None and place < end:
            seen = self._known[place]
            if not isinstance(seen, Message):
                break
            if last is None and not rest.startswith(seen.text) and rest.endswith(seen.text):  # joined in its middle
                self._known[place] = structs.replace(seen, text=rest)
                return place
            if not rest.startswith(seen.text):
                break
            last, rest = place, rest[len(seen.text) :]
            self._at = place + 1
        if last is not None and rest:
            seen = self._known[last]
            if isinstance(seen, Message):
                self._known[last] = structs.replace(seen, text=seen.text + rest)
        return last

    def _fresh(self, item: Item, turn: str) -> Item:
        if isinstance(item, Message):
            return structs.replace(item, id=item.id or self._new_id(), turn=turn)
        return structs.replace(item, turn=turn)


def _is_spoken(item: Item, *roles: str) -> bool:
    return isinstance(item, Message) and item.role in roles


def _mark(item: Item) -> Mark:
    """What makes two items the same."""
    if isinstance(item, Message):
        return Message, item.role, item.text
    if isinstance(item, Reasoning):
        return Reasoning, "", item.text
    return type(item), item.call, item.name if isinstance(item, ToolCall) else ""


def _reach(items: Sequence[Item], told: Sequence[Item]) -> int:
    """How many of the items stand before the end of what was told; all where none of it is among them."""
    marks = {_mark(item) for item in told}
    return next((n for n in range(len(items), 0, -1) if _mark(items[n - 1]) in marks), len(items))


def _next(places: Sequence[int], at: int) -> int | None:
    """The first of these places that is not before `at`."""
    i = bisect_left(places, at)
    return places[i] if i < len(places) else None
