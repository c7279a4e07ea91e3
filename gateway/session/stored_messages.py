"""Add to the transcript the messages that only the store of a backend has (docs/translation.md, rule 4.7).

Two messages are the same if they have one id, or else one role and text after the last message that both have. A
message that only the store has comes after the last one that both have, and before the turn of the next. If that turn
has an answer that the store corrects, the message comes after this answer, because two runs were seen as one.

Items that only the transcript has stay where they are. Each step looks up the index of a message, so the cost is
linear.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import takewhile

from msgspec import structs

from dragoman.mappings.canonical.values import Item, Message, answers, is_chat_message
from dragoman.mappings.dialect import NewId
from dragoman.mappings.in_words import without_runs


def fold_in(listed: Sequence[Item], transcript: Sequence[Item], new_id: NewId) -> list[Item] | None:
    """Return the transcript with the messages that only a store has; None if there are none."""
    merged: list[Item] = []
    new: list[Message] = []
    at, turn = 0, ""
    for message, place in [*_placed(listed, transcript), (None, len(transcript))]:
        if place is None:
            assert message is not None  # noqa: S101  # the last pair has an index
            new.append(structs.replace(message, id=message.id or new_id()))
            continue
        gap = list(transcript[at:place])
        corrected = _correct(gap, new)
        begin = max(corrected, _start_of_turn(gap, transcript[place] if message is not None else None))
        merged += gap[:begin]
        for one in new:
            turn = new_id() if one.role == "user" else turn
            merged.append(structs.replace(one, turn=turn))
        merged += gap[begin:]
        new = []
        if message is not None:
            merged.append(transcript[place])
            turn = transcript[place].turn
        at = place + 1
    return merged if merged != list(transcript) else None


def _placed(listed: Sequence[Item], transcript: Sequence[Item]) -> Iterator[tuple[Message, int | None]]:
    """Yield each message with its index in the transcript, None if it is not there.

    A message that the transcript has before the last one that both have is left out: it stays where clients saw it.
    """
    messages = [item for item in listed if isinstance(item, Message)]
    ids = {message.id for message in messages}
    by_id: dict[str, int] = {}
    alike: dict[tuple[str, str], list[int]] = {}
    for i, item in enumerate(transcript):
        if isinstance(item, Message) and item.id and item.id in ids:
            by_id[item.id] = i
        elif isinstance(item, Message):
            alike.setdefault((item.role, item.text), []).append(i)
    at = 0
    for message in messages:
        place = by_id.get(message.id)
        if place is not None and place < at:
            continue
        if place is None:
            place = _next_place(alike.get((message.role, message.text), ()), at)
        at = at if place is None else place + 1
        yield message, place


def _start_of_turn(gap: Sequence[Item], known: Item | None) -> int:
    """Return the index in `gap` at which the turn of the known message after it begins; its end if there is none."""
    begin = len(gap)
    while known is not None and known.turn and begin and gap[begin - 1].turn == known.turn:
        begin -= 1
    return begin


def _correct(gap: list[Item], new: list[Message]) -> int:
    """Correct the answers in `gap` by the text of the store; return how many of its items come before those in `new`.

    `gap` has the items between two known messages, `new` the messages that the store has there. Two answers are the
    same if no input is between them: then the text of the store is right. What the items have already is removed from
    `new`.
    """
    stored = [*takewhile(lambda message: message.role == "assistant", new)]
    asked = max((i for i, item in enumerate(gap) if is_chat_message(item, "user")), default=0)
    text = "".join(message.text for message in stored)
    rest = without_runs(text, answers(gap[:asked]))
    heard = answers(gap[asked:])
    if heard and len(stored) < len(new) and "".join(answers(new)) == "".join(heard):
        # The store has inputs between the parts of what was heard: its answers take the place of what was heard.
        place = _first_answer(gap, asked)
        gap[place:] = [item for item in gap[place:] if not is_chat_message(item, "assistant")]
        return place
    known = "".join(heard)
    if (heard or asked) and (rest == known or (len(stored) < len(heard) and rest.startswith(known))):
        # A store may join the blocks of an answer, as a gateway in the place of a pando does: only its end is new.
        if rest != known:
            last = max(i for i, item in enumerate(gap) if is_chat_message(item, "assistant"))
            gap[last] = structs.replace(gap[last], text=heard[-1] + rest[len(known) :])
        del new[: len(stored)]
        return 0
    if asked and not heard and rest != text:
        # Such a gateway stores neither its questions in words nor their answers: only the text after those is added.
        new[: len(stored)] = [structs.replace(stored[-1], text=rest)]
        return 0
    unheard = max(0, len(stored) - len(heard)) if heard and text.endswith(heard[-1]) else 0
    return _replace_answers(gap, new, asked if heard else 0, unheard)


def _replace_answers(gap: list[Item], new: list[Message], begin: int, unheard: int) -> int:
    """Replace the texts of the answers in `gap` from `begin` on by those in `new`, in order.

    The first `unheard` messages of `new` were not received: they come before the first answer in `gap`, in its turn.
    Return how many items of `gap` come before those that are left in `new`.
    """
    corrected = 0
    for i, item in enumerate(gap[begin:], begin):
        if unheard >= len(new) or new[unheard].role != "assistant":
            break
        if is_chat_message(item, "assistant"):
            gap[i] = structs.replace(item, text=new.pop(unheard).text)
            corrected = i + 1
    if unheard:
        place = _first_answer(gap, begin)
        gap[place:place] = [structs.replace(answer, turn=gap[place].turn) for answer in new[:unheard]]
        del new[:unheard]
    return corrected + unheard


def _first_answer(items: Sequence[Item], begin: int) -> int:
    """Return the index of the first answer among the items from `begin` on; there is one."""
    return next(i for i, item in enumerate(items[begin:], begin) if is_chat_message(item, "assistant"))


def _next_place(places: Sequence[int], at: int) -> int | None:
    """Return the first of these indices that is not before `at`."""
    i = bisect_left(places, at)
    return places[i] if i < len(places) else None
