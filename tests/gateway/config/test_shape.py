"""Everything that does not fit, not only the first of it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct

from dragoman.gateway.config.shape import either, faults, nearest


class Leaf(Struct, frozen=True, kw_only=True):
    colour: Literal["red", "green", "blue"] = "red"
    size: Annotated[int, Meta(ge=10)] = 10
    wait: float = 1.0
    deep: bool = False


class Tree(Struct, frozen=True, kw_only=True):
    leaves: list[Leaf]
    names: list[str] = []
    root: Leaf = Leaf()


def test_what_fits_has_no_faults() -> None:
    assert list(faults({"leaves": [{"colour": "blue", "wait": 3}], "names": ["a"], "root": {}}, Tree)) == []


def test_every_fault_is_told_with_its_path() -> None:
    table = {"leaves": [{"colour": "pink"}, 3, {"size": 1, "wait": "long"}], "names": ["a", 4], "rot": 1}
    assert [path for path, _ in faults(table, Tree)] == [
        ("leaves", 0, "colour"),
        ("leaves", 1),
        ("leaves", 2, "size"),
        ("leaves", 2, "wait"),
        ("names", 1),
        ("rot",),
    ]


@pytest.mark.parametrize(
    ("leaf", "words"),
    [
        ({"colour": "pink"}, "'pink' is no choice here; write red, green or blue"),
        ({"colour": 3}, "3 is no choice here; write red, green or blue"),
        ({"size": 3}, "3 does not fit here; write a whole number >= 10"),
        ({"size": "3"}, "'3' does not fit here; write a whole number"),
        ({"wait": True}, "true does not fit here; write a number"),
        ({"wait": float("inf")}, "inf does not fit here; write a number that ends"),
        ({"wait": float("nan")}, "nan does not fit here; write a number that ends"),
        ({"deep": 1}, "1 does not fit here; write true or false"),
        ({"colours": "red"}, "unknown key 'colours'; did you mean 'colour'?"),
        ({"patience": 1}, "unknown key 'patience'; there are colour, size, wait, deep"),
    ],
)
def test_a_fault_says_what_to_write(leaf: dict[str, Any], words: str) -> None:
    assert [text for _, text in faults(leaf, Leaf)] == [words]


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ({}, ((), "the key 'leaves' is missing")),
        ({"leaves": [], "root": 3}, (("root",), "3 is no table")),
        ({"leaves": {}}, (("leaves",), "{} does not fit here; write a list in brackets")),
        ({"leaves": [], "names": "a"}, (("names",), "'a' does not fit here; write a list in brackets")),
    ],
)
def test_tables_and_lists_must_be_such(table: dict[str, Any], fault: object) -> None:
    assert list(faults(table, Tree)) == [fault]


def test_a_long_value_is_cut() -> None:
    ((_, text),) = faults({"size": "x" * 5000}, Leaf)
    assert len(text) < 150


def test_words_are_joined_as_one_says_them() -> None:
    assert either(["a", "b", "c"]) == "a, b or c"
    assert either(["a"]) == "a"
    assert nearest("helo", ["hello", "world"]) == "did you mean 'hello'?"
    assert nearest("xyz", ["hello", "world"]) == "there are hello, world"
