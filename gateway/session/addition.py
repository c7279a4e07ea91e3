"""Add to the transcript what a history of the same conversation has in addition (docs/translation.md, rule 4.7).

A backend may know less of a conversation than the gateway saw: a pod logs no answer that was cancelled, and compacts
its log. `Addition` is for a whole history, and for the newest page of one:

    of the history                            in the transcript
    an input                                  is the one with its id, else one of these words, whose run has this answer
    a run that is not there                   is added before the next run that both have, else at the end
    an answer                                 is one text, whose beginning and end are compared with what was seen
    an answer that was seen, or more of it    stays as it was seen: a store may be behind, or divide it at its calls
    an answer that was seen in part           becomes the whole answer, under its id
    an answer that contradicts what was seen  adds its blocks that were not seen, before the end that both have
    a call, result, thought or system item    stays if it is there anywhere: a log may order them otherwise
    anything else                             is added before the next block of its run that both have, else after it

A history that is added twice adds nothing the second time: every run of it is in the transcript then, in its order.
Items that only the transcript has stay where they are. Each step looks up where a run stands: the cost is linear.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Sequence
from itertools import accumulate, chain, dropwhile, pairwise, takewhile

from msgspec import structs

from dragoman.mappings.canonical.values import Item, Message, Reasoning, ToolCall, answers, is_said
from dragoman.mappings.dialect import NewId

Mark = tuple[type, str, str]

ALIKE = 64  # runs of one input among which the one with this answer is looked for
COMPARED = 8192  # blocks compared in vain in one history (15 ms): from then on only the next run is looked at


class HistoryRun:
    """An input and the items after it. The first run of a history has no input; it may have no items."""

    def __init__(self, items: Sequence[Item]) -> None:
        first = items[0] if items else None
        self.items = items
        self.id, self.asked, self.rest = "", "", items
        if first is not None and is_said(first, "user"):
            self.id, self.asked, self.rest = first.id, first.text, items[1:]
        self.turn = first.turn if first is not None else ""
        self.blocks = answers(items)
        self.answer = "".join(self.blocks)
        self.starts = [*accumulate(map(len, self.blocks), initial=0)][:-1]  # where each block begins in the answer

    def shared(self, told: HistoryRun) -> tuple[int, int]:
        """Return the lengths of the beginning and of the end of the answer of `told` that this answer has, too.

        They are whole blocks, unless one of the two answers is the beginning or the end of the other.
        """
        seen, text = self.answer, told.answer
        if seen.startswith(text) or text.startswith(seen):
            return min(len(seen), len(text)), 0
        if seen.endswith(text) or text.endswith(seen):
            return 0, min(len(seen), len(text))
        begin = next(at for at, block in zip(told.starts, told.blocks, strict=True) if not seen.startswith(block, at))
        end = 0
        for at, block in zip(reversed(told.starts), reversed(told.blocks), strict=True):
            place = at + len(seen) - len(text)
            if min(at, place) < begin or not seen.startswith(block, place):
                break
            if at == begin or next_place(self.starts, place) == place:
                end = len(text) - at
        return begin, end


class Addition:
    """The transcript to which a history is added."""

    def __init__(self, transcript: Sequence[Item], new_id: NewId) -> None:
        self._known = _runs(transcript)
        self._new_id = new_id
        self._marks = {_mark(item) for item in transcript if not is_said(item)}
        self._ids = {"", *(item.id for item in transcript if isinstance(item, Message))}

    def of(self, added: Sequence[Item]) -> list[Item]:
        """Return the transcript with the items that only `added` has."""
        told = _runs(added)
        same = _same_runs(told, self._known)
        items = [run.items for run in self._known]
        last, new = -1, list[Item]()
        for number, run in enumerate(told):
            place = same.get(number)
            if place is None:
                turn = self._new_id()
                new += chain.from_iterable(self._fresh(item, turn) for item in run.items)
                continue
            items[place] = self._completed(self._known[place], run)
            if place > last:
                items[place], last, new = [*new, *items[place]], place, []
        return [*chain.from_iterable(items), *new]

    def _completed(self, known: HistoryRun, told: HistoryRun) -> list[Item]:
        """Return the items of a known run with what only `told` has, each before the next block that both have."""
        begin, end = known.shared(told)
        stop = len(told.answer) - end  # the answer of `told` between `begin` and `stop` is missing
        texts = [*known.blocks]
        places = [*(n for n, item in enumerate(known.items) if is_said(item, "assistant")), len(known.items)]
        new: dict[int, list[Item]] = {}  # by the place before which they come
        at = 0
        for item in told.rest:
            text = item.text if is_said(item) else ""
            missing, last = text[max(0, begin - at) : max(0, stop - at)], at + len(text)
            if missing and at < begin:
                texts[-1] += missing
            elif missing and last > stop:
                texts[0] = missing + texts[0]
            elif missing or not is_said(item):
                seen = at if at < begin else len(known.answer) - min(end, len(told.answer) - at)
                new.setdefault(places[bisect_left(known.starts, seen)], []).extend(self._fresh(item, known.turn))
            at = last
        rest = iter(texts)
        items = [structs.replace(item, text=next(rest)) if is_said(item, "assistant") else item for item in known.items]
        return [*chain.from_iterable((*new.get(n, ()), item) for n, item in enumerate(items)), *new.get(len(items), ())]

    def _fresh(self, item: Item, turn: str) -> list[Item]:
        """Return an item to be added to this turn, under an id of its own; nothing if the transcript has it."""
        if not is_said(item) and _mark(item) in self._marks:
            return []
        if not isinstance(item, Message):
            return [structs.replace(item, turn=turn)]
        own = structs.replace(item, id=item.id if item.id not in self._ids else self._new_id(), turn=turn)
        self._ids.add(own.id)
        return [own]


def add_listed(listed: Sequence[Item], transcript: Sequence[Item], new_id: NewId) -> list[Item] | None:
    """Return the transcript with what a list of the same conversation adds to it; None if that is nothing.

    A list may begin inside of a run: an answer without its input has no place among the known ones.
    """
    items = Addition(transcript, new_id).of(whole_runs(listed))
    return items if items != transcript else None


def whole_runs(items: Sequence[Item]) -> tuple[Item, ...]:
    """Return the items from the first input on."""
    return tuple(dropwhile(lambda item: not is_said(item, "user"), items))


def reach(items: Sequence[Item], added: Sequence[Item]) -> int:
    """Return how many items there are up to the last one of `added`; all if there is none of them."""
    marks = {_mark(item) for item in added}
    return next((n for n in range(len(items), 0, -1) if _mark(items[n - 1]) in marks), len(items))


def _runs(items: Sequence[Item]) -> list[HistoryRun]:
    """Return the runs of a history; the first one is what comes before the first input."""
    begins = [0, *(i for i, item in enumerate(items) if is_said(item, "user")), len(items)]
    return [HistoryRun(items[begin:end]) for begin, end in pairwise(begins)]


def _same_runs(told: Sequence[HistoryRun], known: Sequence[HistoryRun]) -> dict[int, int]:
    """Return the place in `known` of each run of `told` that is there. Both may lack runs.

    Two runs are the same if their inputs have one id. Users repeat their words. So other runs are the same only if
    their inputs have one text, and one of their answers has all of the other.
    Between two such runs, all are the same if all inputs are: a backend may store another answer than was seen.
    Otherwise those next to such a run are the same if one of the two has no answer: it was cancelled, or not stored.
    """
    told_ids = Counter(run.id for run in told if run.id)
    numbers = {run.id: number for number, run in enumerate(told) if told_ids[run.id] == 1}
    same = {0: 0} | {numbers[run.id]: place for place, run in enumerate(known) if run.id in numbers}
    by_id = {*same.values()}
    alike = _RunIndex(known, without=by_id)

    def may_be_one(pair: tuple[int, int]) -> bool:
        one, other = told[pair[0]], known[pair[1]]
        return one.asked == other.asked and not (one.answer and other.answer)

    in_order = [(0, 0)]
    for number, run in enumerate(told[1:], 1):
        after = in_order[-1][1] + 1
        if number not in same and (found := alike.find_run(run, after)) is not None:
            same[number] = found
        if same.get(number, 0) >= after:
            in_order.append((number, same[number]))
    for (number, place), (end, last) in pairwise([*in_order, (len(told), len(known))]):
        some = [n for n in range(number + 1, end) if n not in same]
        others = [n for n in range(place + 1, last) if n not in by_id]
        if [told[n].asked for n in some] == [known[n].asked for n in others]:
            same |= zip(some, others, strict=True)
        for direction in (1, -1):
            next_to = [*takewhile(may_be_one, zip(some[::direction], others[::direction], strict=False))]
            same |= next_to
            some, others = some[len(next_to) :], others[len(next_to) :]
    return same


class _RunIndex:
    """The known runs with an answer, by their input, and by input and answer."""

    def __init__(self, known: Sequence[HistoryRun], without: Container[int]) -> None:
        self._known = known
        self._places: dict[tuple[str, ...], list[int]] = {}
        self._left = COMPARED
        for place, run in enumerate(known):
            if run.answer and place not in without:
                self._places.setdefault((run.asked,), []).append(place)
                self._places.setdefault((run.asked, run.answer), []).append(place)

    def find_run(self, told: HistoryRun, after: int) -> int | None:
        """Return the place from `after` on of a run that has all of this answer, else of one that has a part of it.

        None is returned if there is no such run, or no answer. The order matters: once the part is completed, its run
        has all of the answer, and is found again.
        """
        if not told.answer:
            return None
        alike, equal = (self._places.get(key, []) for key in ((told.asked,), (told.asked, told.answer)))
        first, part = bisect_left(alike, after), None
        for place in alike[first : first + ALIKE]:
            both = sum(self._known[place].shared(told))
            if both == len(told.answer):
                return place
            if part is None and both == len(self._known[place].answer):
                part = place
            self._left -= len(told.blocks)
            if self._left < 0:
                break
        whole = next_place(equal, after)
        return part if whole is None else whole


def _mark(item: Item) -> Mark:
    """Return a key that is the same for two items that count as one."""
    if isinstance(item, Message):
        return Message, item.role, item.text
    if isinstance(item, Reasoning):
        return Reasoning, "", item.text
    return type(item), item.call, item.name if isinstance(item, ToolCall) else ""


def next_place(places: Sequence[int], at: int) -> int | None:
    """Return the first of these indices that is not before `at`."""
    i = bisect_left(places, at)
    return places[i] if i < len(places) else None
