"""The runs that two histories have in common are found by several rules, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dragoman.gateway.session.same_runs import ALIKE, same_runs, split_runs
from dragoman.mappings.canonical.values import Item
from tests.gateway.session.items import answer, asks, assistant, conversation, user


def places(received: Sequence[Item], known: Sequence[Item]) -> list[tuple[int, int]]:
    """Return the places of the runs that are the same, without what comes before the first inputs."""
    return sorted(same_runs(split_runs(received), split_runs(known)).items())[1:]


@pytest.mark.parametrize(
    ("received", "known", "same"),
    [
        ("g:a h:b", "g:a h:b", [(1, 1), (2, 2)]),
        ("g:a", "g:b g:a g:c", [(1, 2)]),
        ("g:a h:b", "h:b g:a", [(1, 2)]),
        ("g:a g:a", "g:a g:a g:a", [(1, 1), (2, 2)]),
        ("g:ab", "g:z g:a", [(1, 2)]),
        ("g:a", "g:z g:ab", [(1, 2)]),
        ("g:ab g:ac", "g:a", [(1, 1)]),
        ("g:ab", "g:a g:ab", [(1, 2)]),
        ("g:y h:a", "f:x g:z h:a", [(2, 3)]),
        ("f:x g:y h:a", "f:x g:z h:a", [(1, 1), (2, 2), (3, 3)]),
        ("g:y", "f:x g:", [(1, 2)]),
        ("g:", "f:x g:z", [(1, 2)]),
        ("g:y", "f:x g:z", []),
        ("g: f:x", "f:x g:", [(2, 1)]),
    ],
    ids=[
        "all",
        "the only equal answer",
        "the first one of two in another order",
        "equal runs, from the first on",
        "a known answer in part",
        "a received answer in part",
        "the first of two that a known answer begins",
        "an equal answer behind one in part",
        "other answers, and not all inputs are equal",
        "another answer, and all inputs are equal",
        "no known answer",
        "no received answer",
        "two answers that have nothing in common",
        "an equal input on the other side of a pair",
    ],
)
def test_two_runs_are_the_same_by_the_first_rule_that_pairs_them(
    received: str, known: str, same: list[tuple[int, int]]
) -> None:
    assert places(conversation(received), conversation(known)) == same


def test_an_id_counts_more_than_an_equal_answer_and_needs_no_order() -> None:
    first, second = ([user("Go on", id=number), assistant("Done.")] for number in "12")
    assert places(second, [*first, *second]) == [(1, 2)]
    assert places([*second, *first], [*first, *second]) == [(1, 2), (2, 1)]
    assert places([*first, *first], first) == [(1, 1)], "an id that comes twice says nothing"


@pytest.mark.parametrize(
    ("received", "known", "begin_and_stop"),
    [
        (["Hel", "lo"], ["Hello"], (5, 5)),
        (["Hello"], ["Hel"], (3, 5)),
        (["Hello"], ["lo"], (0, 3)),
        (["lo"], ["Hello"], (0, 0)),
        (["a", "b", "c"], ["a", "c"], (1, 2)),
        (["a", "c"], ["a", "b", "c"], (1, 1)),
        (["a", "x", "c"], ["a", "b", "c"], (1, 2)),
        (["a", "x", "c"], ["a", "bc"], (1, 3)),
        (["x"], ["y"], (0, 1)),
        (["x"], [], (0, 1)),
    ],
)
def test_an_answer_lacks_the_whole_blocks_between_those_that_both_have(
    received: list[str], known: list[str], begin_and_stop: tuple[int, int]
) -> None:
    (_, of_received), (_, of_known) = (split_runs([asks("1"), *map(answer, texts)]) for texts in (received, known))
    assert of_known.missing_part(of_received) == begin_and_stop


def test_an_equal_answer_is_found_among_more_runs_than_are_compared() -> None:
    known = conversation(" ".join(f"g:{n}." for n in range(2 * ALIKE)))
    assert places(known[-2:], known) == [(1, 2 * ALIKE)]


def test_runs_without_an_answer_are_not_compared_with_one() -> None:
    known = conversation(" ".join(["g:"] * ALIKE + ["g:ab"]))
    assert places(conversation("g:a"), known) == [(1, ALIKE + 1)]
