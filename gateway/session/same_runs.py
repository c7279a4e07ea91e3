"""Find the runs that two histories of one conversation have in common (docs/translation.md, rule 4.7).

A run is an input and the items after it. Either history may lack runs, and parts of answers. Users may send the same
text again. So runs are paired by several rules. Each rule looks only between the pairs that earlier rules have found:

    two runs are the same if their inputs   and of their answers
    have one id                             no condition; only here the order may differ
    have one text                           the known one has all of the received one, or else both are equal, or else
                                            the received one has all of the known one
    have one text, and all between do       no condition: a backend may store another answer than was seen
    have one text                           one is not there: it was cancelled, or is not stored

A run is paired with the first known run that fits. When the known run has been completed, it has the whole received
answer, and no earlier run fits. So a history that is sent twice gives the same pairs. The cost of each rule is linear.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, islice, pairwise
from operator import attrgetter

from msgspec import structs

from dragoman.mappings.canonical.values import Item, answers, is_chat_message

ALIKE = 4  # known runs that are compared with one run: more of them find no more pairs in random conversations


class HistoryRun:
    """An input and the items after it. The first run of a history has no input; it may have no items."""

    def __init__(self, place: int, items: Sequence[Item]) -> None:
        self.place = place  # in its history
        self.items = items
        first = items[0] if items else None
        self.turn = first.turn if first is not None else ""
        self.id, self.asked, self.rest = "", "", items
        if first is not None and is_chat_message(first, "user"):
            self.id, self.asked, self.rest = first.id, first.text, items[1:]
        texts = answers(items)
        self.answer = "".join(texts)
        self.blocks = dict(zip(accumulate(map(len, texts), initial=0), texts, strict=False))  # by place in the answer

    def missing_part(self, received: HistoryRun) -> tuple[int, int]:
        """Return the start and end, in the answer of `received`, of the text that this answer lacks.

        This answer has the text before it and after it. Both are whole blocks, unless one of the two answers is the
        beginning or the end of the other. The missing text ends where a block of this answer begins, so it can be added
        there.
        """
        seen, text = self.answer, received.answer
        if seen.startswith(text) or text.startswith(seen):
            return min(len(seen), len(text)), len(text)
        if seen.endswith(text) or text.endswith(seen):
            return 0, max(0, len(text) - len(seen))
        begin = next(at for at, block in received.blocks.items() if not seen.startswith(block, at))
        stop = len(text)
        for at, block in reversed(received.blocks.items()):
            place = at + len(seen) - len(text)
            if min(at, place) < begin or not seen.startswith(block, place):
                break
            if at == begin or place in self.blocks:
                stop = at
        return begin, stop

    def lengthened(self, before: str, after: str) -> HistoryRun:
        """Return this run with `before` added at the start of its first block, and `after` at the end of its last."""
        if not (before or after):
            return self
        texts = answers(self.items)
        texts[0] = before + texts[0]
        texts[-1] += after
        rest = iter(texts)
        items = [
            structs.replace(item, text=next(rest)) if is_chat_message(item, "assistant") else item
            for item in self.items
        ]
        return HistoryRun(self.place, items)


Runs = Sequence[HistoryRun]
Pairs = Iterable[tuple[HistoryRun, HistoryRun]]
"""Pairs of equal runs: one of the received history, and the known one."""

Sign = tuple[Callable[[HistoryRun], Hashable], Callable[[HistoryRun, HistoryRun], bool]]
"""A key that equal runs have in common, and a further condition that a pair must meet."""


def split_runs(items: Sequence[Item]) -> Runs:
    """Return the runs of a history. The first one has the items before the first input."""
    begins = [0, *(i for i, item in enumerate(items) if is_chat_message(item, "user")), len(items)]
    return [HistoryRun(place, items[begin:end]) for place, (begin, end) in enumerate(pairwise(begins))]


def same_runs(received: Runs, known: Runs) -> dict[int, int]:
    """Return a map: index of a run in `received` -> index of the equal run in `known`."""
    same = {0: 0}
    for find_pairs in RULES:
        for gap in [*_gaps(received, known, same)]:
            same |= {run.place: other.place for run, other in find_pairs(*gap)}
    return same


def _gaps(received: Runs, known: Runs, same: dict[int, int]) -> Iterator[tuple[Runs, Runs]]:
    """Yield the runs without a partner that are between two pairs in both histories."""
    paired = {*same.values()}
    run, other = 0, 0
    for next_run, next_other in [*sorted(same.items()), (len(received), len(known))]:
        if next_other > other:  # the order of the two pairs is the same in both histories
            yield (
                [received[place] for place in range(run + 1, next_run) if place not in same],
                [known[place] for place in range(other + 1, next_other) if place not in paired],
            )
            run, other = next_run, next_other


# -- the rules, in the order of the table ------------------------------------------------------------------


def _one_id(received: Runs, known: Runs) -> Pairs:
    """Pair each run with the known run with the same id, unless an id occurs twice."""
    others = {run.id: run for run in known}
    counts = Counter(run.id for run in received if run.id in others)
    return [(run, others[run.id]) for run in received if run.id and counts[run.id] == 1]


def _equal_inputs(received: Runs, known: Runs) -> Pairs:
    """Pair all runs, if their inputs are equal one by one."""
    is_equal = [run.asked for run in received] == [run.asked for run in known]
    return zip(received, known, strict=True) if is_equal else ()


def _in_order(received: Runs, known: Runs, signs: Sequence[Sign]) -> Pairs:
    """Pair each run with the first known run after the last pair that has one of these signs, tried in their order."""
    alike: dict[Hashable, deque[HistoryRun]] = {}
    for key in {key for key, _ in signs}:
        for run in known:
            alike.setdefault(key(run), deque()).append(run)
    last = 0
    for run in received:
        for key, is_same in signs:
            others = alike.get(key(run), deque())
            while others and others[0].place <= last:
                others.popleft()
            found = next((other for other in islice(others, ALIKE) if is_same(run, other)), None)
            if found is not None:
                yield run, found
                last = found.place
                break


def _has_all(received: HistoryRun, known: HistoryRun) -> bool:
    """Return True if the known answer has all of the received one."""
    begin, stop = known.missing_part(received)
    return bool(received.answer) and begin == stop


def _has_part(received: HistoryRun, known: HistoryRun) -> bool:
    """Return True if all of the known answer is a part of the received one."""
    begin, stop = known.missing_part(received)
    return bool(known.answer) and stop - begin == len(received.answer) - len(known.answer)


def _both_answered(received: HistoryRun, known: HistoryRun) -> bool:
    return bool(received.answer and known.answer)


def _one_unanswered(received: HistoryRun, known: HistoryRun) -> bool:
    return not _both_answered(received, known)


INPUT, INPUT_AND_ANSWER = attrgetter("asked"), attrgetter("asked", "answer")


def _answered_input(run: HistoryRun) -> Hashable:
    """Return a key of runs with an answer that those without one do not have."""
    return run.asked, bool(run.answer)


RULES: tuple[Callable[[Runs, Runs], Pairs], ...] = (
    _one_id,
    partial(
        _in_order, signs=[(_answered_input, _has_all), (INPUT_AND_ANSWER, _both_answered), (_answered_input, _has_part)]
    ),
    _equal_inputs,
    partial(_in_order, signs=[(INPUT, _one_unanswered)]),
)
