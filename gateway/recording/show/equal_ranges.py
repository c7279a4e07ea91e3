"""Find the ranges of items that are equal in two long sequences, in time that grows with their length.

A common beginning and end are found first. What is between them is compared with SequenceMatcher, whose cost is
quadratic. If it is too long for that, it is divided at pairs of equal items in the same order: first at the items that
both have once, then at equal items with the same number.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher

MATCHED_MAX = 100_000  # items of one range times items of the other: 0.1 s if every second one is equal in both

Range = tuple[bool, int, int, int, int]
"""True if the items are equal, begin and end in the first sequence, begin and end in the second."""

Pair = tuple[int, int]
Pairing = Callable[[Sequence[Hashable], Sequence[Hashable]], Iterator[Pair]]
Chain = tuple[Pair, "Chain | None"]


def _unique_items(a: Sequence[Hashable], b: Sequence[Hashable]) -> Iterator[Pair]:
    """Return the places of each item that both have once."""
    a_counts, b_counts, places = Counter(a), Counter(b), {item: place for place, item in enumerate(b)}
    return ((i, places[item]) for i, item in enumerate(a) if a_counts[item] == 1 == b_counts[item])


def _numbered_items(a: Sequence[Hashable], b: Sequence[Hashable]) -> Iterator[Pair]:
    """Return the places of the first of several equal items in both, those of the second, and so on."""
    return _unique_items([*_numbered(a)], [*_numbered(b)])


def _numbered(items: Sequence[Hashable]) -> Iterator[Hashable]:
    counts = Counter[Hashable]()
    for item in items:
        counts[item] += 1
        yield item, counts[item]


def equal_ranges(
    a: Sequence[Hashable], b: Sequence[Hashable], pairings: Sequence[Pairing] = (_unique_items, _numbered_items)
) -> Iterator[Range]:
    """Yield the ranges of `a` and `b` in their order, equal ones and others; a range may be empty.

    `pairings` are the functions that find the pairs of equal items at which a long range is divided.
    """
    least = min(len(a), len(b))
    begin = next((i for i in range(least) if a[i] != b[i]), least)
    end = next((i for i in range(least - begin) if a[-1 - i] != b[-1 - i]), least - begin)
    a_end, b_end = len(a) - end, len(b) - end
    yield True, 0, begin, 0, begin
    one, other = a[begin:a_end], b[begin:b_end]
    for is_equal, *bounds in _ranges_between(one, other, pairings):
        a_from, a_to, b_from, b_to = (begin + bound for bound in bounds)
        yield is_equal, a_from, a_to, b_from, b_to
    yield True, a_end, len(a), b_end, len(b)


def _ranges_between(a: Sequence[Hashable], b: Sequence[Hashable], pairings: Sequence[Pairing]) -> Iterator[Range]:
    if len(a) * len(b) <= MATCHED_MAX:
        for tag, a_from, a_to, b_from, b_to in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
            yield tag == "equal", a_from, a_to, b_from, b_to
        return
    if not pairings:
        yield False, 0, len(a), 0, len(b)
        return
    a_from = b_from = 0
    for a_to, b_to in [*_in_order(pairings[0](a, b)), (len(a), len(b))]:
        for is_equal, a_begin, a_end, b_begin, b_end in equal_ranges(a[a_from:a_to], b[b_from:b_to], pairings[1:]):
            yield is_equal, a_from + a_begin, a_from + a_end, b_from + b_begin, b_from + b_end
        a_from, b_from = a_to, b_to


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
