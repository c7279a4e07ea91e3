"""The golden frames of each dialect, from tests/mappings/*/golden.py."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, cast

from msgspec import UNSET, Struct, inspect

from dragoman.mappings.dialect import Direction


class Golden(Struct, frozen=True, kw_only=True):
    """Golden frames of a dialect, which have every field that they do not omit, and the types of its messages.

    `spellings` are the fields of `ext` that tell a client of another dialect nothing, or that it gets in another form.
    """

    events: list[bytes]
    commands: list[bytes]
    event_types: set[Any]
    command_types: set[Any]
    event_spellings: set[str]
    command_spellings: set[str]
    inexact: tuple[type, ...] = ()
    """The events that lose something toward the dialect itself. Some answers are read by what was asked, not word by
    word. A list of messages has no pages and no calls but in smooth.
    """

    def frames(self, side: str) -> list[bytes]:
        """Return the frames of "events" or "commands"."""
        return self.events if side == "events" else self.commands

    def spellings(self, side: str) -> set[str]:
        """Return the spellings in the ext of "events" or "commands"."""
        return self.event_spellings if side == "events" else self.command_spellings


@cache
def golden(dialect: str) -> Golden:
    """Return the golden frames of a dialect."""
    return cast("Golden", import_module(f"tests.mappings.{dialect}.golden").GOLDEN)


def said(value: Any) -> Iterator[str]:
    """Yield `STRUCT.key` of each field that a message has, at any depth."""
    if isinstance(value, list | tuple):
        for member in value:
            yield from said(member)
    elif isinstance(value, Struct):
        for name, key in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
            inner = getattr(value, name)
            if inner is not None and inner is not UNSET:
                yield f"{type(value).__qualname__}.{key}"
                yield from said(inner)


def documented(direction: Direction[Any]) -> set[str]:
    """Return `STRUCT.key` of each field that any message of a direction may have."""
    found: set[str] = set()
    for kind in direction.to_canonical.entries:
        found |= set(fields_of(inspect.type_info(kind)))
    return found


def fields_of(shape: inspect.Type) -> Iterator[str]:
    """Yield `STRUCT.key` of each field inside of a type."""
    match shape:
        case inspect.StructType():
            for field in shape.fields:
                yield f"{shape.cls.__qualname__}.{field.encode_name}"
                yield from fields_of(field.type)
        case inspect.UnionType():
            for member in shape.types:
                yield from fields_of(member)
        case inspect.ListType() | inspect.VarTupleType():
            yield from fields_of(shape.item_type)
