"""Folds a store that knows only what was said into the transcript of a session (docs/translation.md, rule 4.7).

The session may know more: calls, reasoning, answers that broke off. The store may know messages that nobody told. Two
messages are the same if they have one id, or else one role and text after the last that both have. What the transcript
has keeps its order; a message that only the store has comes after the last one that both have, and before the turn of
the next.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from msgspec import structs

from dragoman.mappings.canonical.values import Item, Message
from dragoman.mappings.dialect import NewId

__all__ = ["fold_in"]


def fold_in(listed: Sequence[Item], transcript: Sequence[Item], new_id: NewId) -> list[Item] | None:
    """Return the transcript with the messages that only the store has; None if there are none."""
    merged: list[Item] = []
    new: list[Message] = []
    changed, at, turn = False, 0, ""
    messages = [item for item in listed if isinstance(item, Message)]
    for message, place in [*zip(messages, _places(messages, transcript), strict=True), (None, len(transcript))]:
        if place is None:
            assert message is not None  # noqa: S101  # the last pair has a place
            new.append(message)
            continue
        gap = list(transcript[at:place])
        begin = _begin_of_turn(gap, transcript[place] if message is not None else None)
        changed |= _correct(gap, new)
        merged += gap[:begin]
        for one in new:
            turn = new_id() if one.role == "user" else turn
            merged.append(structs.replace(one, id=one.id or new_id(), turn=turn))
        changed |= bool(new)
        merged += gap[begin:]
        new = []
        if message is not None:
            merged.append(transcript[place])
            turn = transcript[place].turn
        at = place + 1
    return merged if changed else None


def _places(messages: Sequence[Message], transcript: Sequence[Item]) -> list[int | None]:
    """Return where each message stands in the transcript, None for those that are not in it."""
    by_id: dict[str, int] = {}
    alike: dict[tuple[str, str], list[int]] = {}
    for i, item in enumerate(transcript):
        if isinstance(item, Message):
            by_id[item.id] = i
            alike.setdefault((item.role, item.text), []).append(i)
    places: list[int | None] = []
    at = 0
    for message in messages:
        place = by_id.get(message.id) if message.id else None
        if place is None or place < at:
            same = alike.get((message.role, message.text), [])
            after = bisect_left(same, at)
            place = same[after] if after < len(same) else None
        if place is not None:
            at = place + 1
        places.append(place)
    return places


def _begin_of_turn(gap: Sequence[Item], known: Item | None) -> int:
    """Return where in `gap` the turn of the known message after it begins; its end if there is no such turn."""
    begin = len(gap)
    while known is not None and known.turn and begin and gap[begin - 1].turn == known.turn:
        begin -= 1
    return begin


def _correct(gap: list[Item], new: list[Message]) -> bool:
    """Give the answers in `gap` the text that the store has of them; return whether one was corrected.

    They are the same if no input stands between them: then the store contradicts what was streamed, and is right.
    """
    corrected = False
    for i, item in enumerate(gap):
        if not new or new[0].role != "assistant":
            break
        if isinstance(item, Message) and item.role == "assistant":
            gap[i] = structs.replace(item, text=new.pop(0).text)
            corrected = True
    return corrected
