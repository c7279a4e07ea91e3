"""The ranges of items that are equal in two sequences."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from math import isqrt

import pytest

from dragoman.gateway.recording.show import equal_ranges as module
from dragoman.gateway.recording.show.equal_ranges import equal_ranges
from tests.step_counter import GROWTH, growth

REPEATED = ["go on"] * 40
NEW = [f"do {n}" for n in range(40)]


@pytest.mark.parametrize(
    ("a", "b", "unlike"),
    [
        (["x", *REPEATED, "y"], ["u", *REPEATED, "v"], 2),
        (["x", *NEW, "y"], ["u", *NEW[:20], *NEW[21:], "v"], 3),
        (["x", *NEW, *REPEATED, *NEW, "y"], ["u", *NEW, *REPEATED[1:], *NEW, "v"], 3),
        (["x", *REPEATED, "y"], [*NEW, "v"], 42),
        (REPEATED, REPEATED, 0),
    ],
    ids=["equal items", "different items", "both", "nothing in common", "the same"],
)
def test_long_sequences_are_divided_at_equal_items(
    a: list[str], b: list[str], unlike: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MATCHED_MAX", 50)
    found = list(equal_ranges(a, b))
    assert all(a[i:j] == b[k:m] for is_equal, i, j, k, m in found if is_equal)
    assert sum(max(j - i, m - k) for is_equal, i, j, k, m in found if not is_equal) == unlike
    for sequence, places in ((a, [(i, j) for _, i, j, _, _ in found]), (b, [(k, m) for _, _, _, k, m in found])):
        assert [place for begin, end in places for place in range(begin, end)] == list(range(len(sequence)))


def test_the_cost_of_long_sequences_grows_with_their_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MATCHED_MAX", 50)

    def work(number: int) -> Callable[[], object]:
        items = [text for n in range(number) for text in ("go on", f"do {n}")]
        return lambda: list(equal_ranges(["x", *items, "y"], ["u", *items[1:], "v"]))

    assert growth(work, [50, 100, 200, 400]) < GROWTH


def test_the_cost_grows_with_the_length_if_every_second_item_is_equal_in_both() -> None:
    def work(number: int) -> Callable[[], object]:
        one, other = ([text for n in range(number) for text in (f"{of} {n}", "go on")] for of in "ab")
        return lambda: list(equal_ranges(one, other))

    assert growth(work, [200, 200, 400]) < GROWTH


def test_the_cost_grows_with_the_length_if_each_division_finds_one_place_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before each equal item, one of the two has all later ones in reverse order."""
    monkeypatch.setattr(module, "MATCHED_MAX", 50)

    def work(items: int) -> Callable[[], object]:
        one = [[f"do {n}", f"done {n}"] for n in range(isqrt(items))]
        other = [
            text for n, pair in enumerate(one) for text in (*reversed([*chain.from_iterable(one[n + 1 :])]), *pair)
        ]
        return lambda: list(equal_ranges([*chain.from_iterable(one)], other))

    assert growth(work, [900, 1800, 3600]) < GROWTH
