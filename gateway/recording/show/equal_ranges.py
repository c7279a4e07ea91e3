"""Find the ranges of items that are equal in two long sequences, in time that grows with their length.

A common beginning and end are found first. What is between them is compared with SequenceMatcher, whose cost is
quadratic. If it is too long for that, it is divided at pairs of equal items in the same order: the first of several
equal items in both, the second, and so on. The parts are divided in the same way, a few times.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher

MATCHED_MAX = 100_000  # items of one range times items of the other: 0.1 s if every second one is equal in both
DIVISIONS_MAX = 4  # divisions inside of one another: each takes linear time, and two are nearly always enough

Range = tuple[bool, int, int, int, int]
"""True if the items are equal, begin and end in the first sequence, begin and end in the second."""

Pair = tuple[int, int]
Chain = tuple[Pair, "Chain | None"]


def equal_ranges(a: Sequence[Hashable], b: Sequence[Hashable], divisions: int = DIVISIONS_MAX) -> Iterator[Range]:
    """Yield the ranges of `a` and `b` in their order, equal ones and others; a range may be empty."""
    least = min(len(a), len(b))
    begin = next((i for i in range(least) if a[i] != b[i]), least)
    end = next((i for i in range(least - begin) if a[-1 - i] != b[-1 - i]), least - begin)
    a_end, b_end = len(a) - end, len(b) - end
    yield True, 0, begin, 0, begin
    for is_equal, *bounds in _ranges_between(a[begin:a_end], b[begin:b_end], divisions):
        a_from, a_to, b_from, b_to = (begin + bound for bound in bounds)
        yield is_equal, a_from, a_to, b_from, b_to
    yield True, a_end, len(a), b_end, len(b)


def _ranges_between(a: Sequence[Hashable], b: Sequence[Hashable], divisions: int) -> Iterator[Range]:
    if len(a) * len(b) <= MATCHED_MAX:
        for tag, a_from, a_to, b_from, b_to in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
            yield tag == "equal", a_from, a_to, b_from, b_to
        return
    places = {item: place for place, item in enumerate(_numbered(b))}
    pairs = _in_order((place, places[item]) for place, item in enumerate(_numbered(a)) if item in places)
    if not pairs or not divisions:
        yield False, 0, len(a), 0, len(b)
        return
    a_from = b_from = 0
    for a_to, b_to in [*pairs, (len(a), len(b))]:
        for is_equal, a_begin, a_end, b_begin, b_end in equal_ranges(a[a_from:a_to], b[b_from:b_to], divisions - 1):
            yield is_equal, a_from + a_begin, a_from + a_end, b_from + b_begin, b_from + b_end
        a_from, b_from = a_to, b_to


def _numbered(items: Iterable[Hashable]) -> Iterator[Hashable]:
    """Yield each item with its number among those that equal it."""
    counts = Counter[Hashable]()
    for item in items:
        counts[item] += 1
        yield item, counts[item]


def _in_order(pairs: Iterable[Pair]) -> list[Pair]:
    """Return the longest sequence of pairs whose second places grow too. The pairs are sorted by their first places."""
    ends: list[int] = []  # number of pairs in order, less one -> the least second place of the last of so many
    chains: list[Chain] = []  # the same number -> this last pair, and the chain before it
    for pair in pairs:
        length = bisect_left(ends, pair[1])
        ends[length : length + 1] = [pair[1]]
        chains[length : length + 1] = [(pair, chains[length - 1] if length else None)]
    found: list[Pair] = []
    chain = chains[-1] if chains else None
    while chain is not None:
        pair, chain = chain
        found.append(pair)
    return found[::-1]
