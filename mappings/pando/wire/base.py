"""The base of every pando message, and the way in which Go reads JSON (docs/dialects/pando.md, section 3).

We write what a pando writes: all members in declaration order, zero values too. We read what Go reads: names in any
case, null and absent as the zero value, and the last of two equal names.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, inspect


class Wire(Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """Base of everything on a pando's wire. A member that Go omits when it is empty is UNSET in that case."""


def usual(value: object, shape: inspect.Type, path: str, dropped: list[str]) -> object:
    """Return an untyped value in the spelling of `shape`, and add the paths of unknown members to `dropped`."""
    match shape:
        case inspect.StructType():
            return _members(value, shape, path, dropped) if isinstance(value, dict) else value
        case inspect.ListType():
            if isinstance(value, list):
                return [usual(member, shape.item_type, f"{path}[]", dropped) for member in value]
        case inspect.UnionType():
            for member in shape.types:
                if isinstance(member, inspect.StructType | inspect.ListType):
                    return usual(value, member, path, dropped)
    return value


def _members(value: dict[str, object], shape: inspect.StructType, path: str, dropped: list[str]) -> dict[str, object]:
    known = {field.encode_name.lower(): field for field in shape.fields}
    members: dict[str, object] = {}
    for name, member in value.items():
        field = known.get(name.lower())
        if field is None:
            dropped.append(f"{path}.{name}")
        elif member is not None or _takes_null(field.type):
            members[field.encode_name] = usual(member, field.type, f"{path}.{field.encode_name}", dropped)
    return members


def _takes_null(shape: inspect.Type) -> bool:
    return any(
        isinstance(member, inspect.NoneType | inspect.RawType | inspect.AnyType) for member in _alternatives(shape)
    )


def _alternatives(shape: inspect.Type) -> Iterator[inspect.Type]:
    yield from shape.types if isinstance(shape, inspect.UnionType) else (shape,)


def struct_type(kind: type[Struct]) -> inspect.StructType:
    """Return the description of a struct by reflection."""
    shape = inspect.type_info(kind)
    assert isinstance(shape, inspect.StructType)  # noqa: S101  # it was asked of a struct
    return shape
