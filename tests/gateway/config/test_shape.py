"""Every mismatch between a table and its struct is reported."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct

from dragoman.gateway.config.shape import faults, join_words, nearest


class Leaf(Struct, frozen=True, kw_only=True):
    colour: Literal["red", "green", "blue"] = "red"
    size: Annotated[int, Meta(ge=10)] = 10
    wait: float = 1.0
    deep: bool = False


class Tree(Struct, frozen=True, kw_only=True):
    leaves: list[Leaf]
    names: list[str] = []
    root: Leaf = Leaf()


def test_a_valid_value_has_no_faults() -> None:
    assert list(faults({"leaves": [{"colour": "blue", "wait": 3}], "names": ["a"], "root": {}}, Tree)) == []


def test_the_error_of_a_key_in_a_wrong_table_names_the_right_one() -> None:
    ((path, text),) = faults({"leaves": [], "colour": "red"}, Tree)
    assert (path, text) == (("colour",), "unknown key 'colour' here; it belongs in [[leaves]] or in [root]")


def test_every_fault_has_its_path() -> None:
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
        ({"colour": "pink"}, "'pink' is not one of red, green, blue"),
        ({"colour": 3}, "3 is not one of red, green, blue"),
        ({"size": 3}, "expected a whole number >= 10, got 3"),
        ({"size": "3"}, "expected a whole number, got '3'"),
        ({"wait": True}, "expected a number, got true"),
        ({"wait": float("inf")}, "expected a finite number, got inf"),
        ({"wait": float("nan")}, "expected a finite number, got nan"),
        ({"deep": 1}, "expected true or false, got 1"),
        ({"deep": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)}, "expected true or false, got 2026-01-02 03:04:05+00:00"),
        ({"colours": "red"}, "unknown key 'colours'; did you mean 'colour'?"),
        ({"patience": 1}, "unknown key 'patience'; write one of colour, size, wait, deep"),
    ],
)
def test_a_configuration_fault_says_what_to_write(leaf: dict[str, Any], words: str) -> None:
    assert [text for _, text in faults(leaf, Leaf)] == [words]


@pytest.mark.parametrize(
    ("table", "fault"),
    [
        ({}, ((), "the key 'leaves' is missing")),
        ({"leaves": [], "root": 3}, (("root",), "expected a table, got 3")),
        ({"leaves": {}}, (("leaves",), "expected a list in brackets, got {}")),
        ({"leaves": [], "names": "a"}, (("names",), "expected a list in brackets, got 'a'")),
    ],
)
def test_a_table_or_list_of_another_type_is_a_fault(table: dict[str, Any], fault: object) -> None:
    assert list(faults(table, Tree)) == [fault]


def test_a_long_value_is_cut() -> None:
    ((_, text),) = faults({"size": "x" * 5000}, Leaf)
    assert len(text) < 150


def test_words_are_joined_as_in_a_sentence() -> None:
    assert join_words(["a", "b", "c"]) == "a, b or c"
    assert join_words(["a"]) == "a"
    assert nearest("helo", ["hello", "world"]) == "did you mean 'hello'?"
    assert nearest("xyz", ["hello", "world"]) == "write one of hello, world"
