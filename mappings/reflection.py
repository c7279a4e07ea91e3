"""The types of structs, as msgspec describes them, and the JSON that they document.

A `Pruner` copies the documented part of an untyped value, for frames that a typed decoder refused. A dialect whose
peers read JSON in another way has a subclass in its wire/codecs.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Union

from msgspec import Struct, inspect


def union_of(base: type[Struct]) -> Any:
    """Return the union of the direct subclasses of `base`, in the order in which they are declared."""
    return Union[tuple(base.__subclasses__())]  # noqa: UP007  # bars cannot join a tuple


describe: Callable[[Any], inspect.Type] = cache(inspect.type_info)
"""Return the description of a type; each is made once, because that of a large struct takes 10 ms."""


def struct_type(kind: type[Struct]) -> inspect.StructType:
    shape = describe(kind)
    assert isinstance(shape, inspect.StructType)  # noqa: S101  # `kind` is a struct
    return shape


def struct_field(kind: type[Struct], name: str) -> inspect.Field:
    """Return the description of a struct's field."""
    return next(field for field in struct_type(kind).fields if field.name == name)


def alternatives(shape: inspect.Type) -> Iterator[inspect.Type]:
    """Yield the members of a union at any depth; any other type is its only alternative."""
    if isinstance(shape, inspect.UnionType):
        for member in shape.types:
            yield from alternatives(member)
    else:
        yield shape


def structs(shape: inspect.Type) -> list[inspect.StructType]:
    """Return the structs among the alternatives of a type."""
    return [member for member in alternatives(shape) if isinstance(member, inspect.StructType)]


class Pruner:
    """Removes the undocumented members of values; `dropped` are their paths."""

    def __init__(self) -> None:
        self.dropped: list[str] = []

    def prune(self, value: object, shape: inspect.Type, path: str = "$") -> Any:
        """Return the part of a value that the type `shape` documents, or a value of another type unchanged."""
        if isinstance(value, dict):
            return self.prune_object(value, structs(shape), path)
        if isinstance(value, list):
            for kind in alternatives(shape):
                if isinstance(kind, inspect.ListType | inspect.VarTupleType):
                    return self.prune_items(value, kind.item_type, f"{path}[]")
        return value

    def prune_items(self, values: list[Any], shape: inspect.Type, path: str) -> list[Any]:
        """Return the documented part of each item; the structs of many objects are looked up once."""
        known = structs(shape)
        return [
            self.prune_object(value, known, path) if isinstance(value, dict) else self.prune(value, shape, path)
            for value in values
        ]

    def prune_object(self, value: dict[str, Any], known: Sequence[inspect.StructType], path: str) -> dict[str, Any]:
        """Return the members of an object that its struct documents: the one of the `known` structs with its tag."""
        for struct in known:
            if struct.tag_field is None or value.get(struct.tag_field) == struct.tag:
                break
        else:
            return value
        fields, members = fields_of(struct.cls), {}
        for name, member in value.items():
            if name in fields:
                inside = isinstance(member, dict | list)
                members[name] = self.prune(member, fields[name], f"{path}.{name}") if inside else member
            elif name == struct.tag_field:
                members[name] = member
            else:
                self.dropped.append(f"{path}.{name}")
        return members


@cache
def fields_of(struct: type[Struct]) -> dict[str, inspect.Type]:
    """Return the types of a struct's fields by their names on the wire."""
    return {field.encode_name: field.type for field in struct_type(struct).fields}
