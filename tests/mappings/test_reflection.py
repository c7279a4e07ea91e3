"""Types of structs are described with all members of their unions; JSON loses the members that no struct documents."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Struct, inspect

from dragoman.mappings.codewhale.wire.codecs import EVENTS
from dragoman.mappings.reflection import Pruner, alternatives, describe, struct_field, structs
from tests.step_counter import count_steps


class Inner(Struct):
    number: int


class Outer(Struct, rename="camel"):
    one_of: Inner | list[int] | None = None


def test_the_alternatives_of_a_union_are_its_members() -> None:
    shape = struct_field(Outer, "one_of").type
    kinds = {type(member) for member in alternatives(shape)}
    assert kinds == {inspect.StructType, inspect.ListType, inspect.NoneType}
    assert [struct.cls for struct in structs(shape)] == [Inner]


def test_a_type_that_is_no_union_is_its_only_alternative() -> None:
    shape = struct_field(Inner, "number").type
    assert list(alternatives(shape)) == [shape]
    assert structs(shape) == []


class Part(Struct, tag_field="kind", tag="part", rename="camel"):
    long_name: str = ""


class Other(Struct, tag_field="kind", tag="other"):
    part: Part


class Whole(Struct):
    parts: tuple[Part | Other, ...] = ()
    rows: list[list[Part]] = []
    opaque: Any = None


@pytest.mark.parametrize(
    ("value", "pruned", "dropped"),
    [
        ({"parts": [], "x": 1}, {"parts": []}, ["$.x"]),
        ({"opaque": {"x": 1}}, {"opaque": {"x": 1}}, []),
        (
            {"parts": [{"kind": "part", "longName": "a", "long_name": "b"}]},
            {"parts": [{"kind": "part", "longName": "a"}]},
            ["$.parts[].long_name"],
        ),
        (
            {"parts": [{"kind": "other", "part": {"kind": "part", "x": 1}}]},
            {"parts": [{"kind": "other", "part": {"kind": "part"}}]},
            ["$.parts[].part.x"],
        ),
        ({"parts": [{"kind": "third", "x": 1}, 5]}, {"parts": [{"kind": "third", "x": 1}, 5]}, []),
        ({"rows": [[{"kind": "part", "x": 1}]]}, {"rows": [[{"kind": "part"}]]}, ["$.rows[][].x"]),
        ({"parts": {"x": 1}}, {"parts": {"x": 1}}, []),
        ([{"x": 1}], [{"x": 1}], []),
    ],
    ids=[
        *("a member", "opaque JSON", "a name that is not the one on the wire", "a struct in a struct"),
        *("an unknown tag", "a list of lists", "an object in place of a list", "a list in place of an object"),
    ],
)
def test_undocumented_members_are_removed_and_named(value: object, pruned: object, dropped: list[str]) -> None:
    pruner = Pruner()
    assert (pruner.prune(value, describe(Whole)), pruner.dropped) == (pruned, dropped)


def test_a_value_that_is_pruned_does_not_change() -> None:
    value = {"parts": [{"kind": "part", "x": 1}], "y": 2}
    Pruner().prune(value, describe(Whole))
    assert value == {"parts": [{"kind": "part", "x": 1}], "y": 2}


def test_a_frame_is_pruned_without_describing_its_type_again() -> None:
    frame = b'{"jsonrpc":"2.0","id":1,"result":{"thread_id":"t","status":"ok","data":null,"x":1}}'
    first, second = [count_steps(lambda: EVENTS.mend(frame)) for _ in range(2)]
    assert second < 2_000, f"{first} steps for the first frame"
