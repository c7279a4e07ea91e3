"""Types of structs are described with all members of their unions."""

from __future__ import annotations

from msgspec import Struct, inspect

from dragoman.mappings.reflection import alternatives, struct_field, structs


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
