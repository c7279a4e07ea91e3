"""The types of structs: unions of them, and their descriptions by msgspec, by which codecs read undocumented JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
