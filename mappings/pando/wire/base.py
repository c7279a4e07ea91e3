"""The base class of every pando message, and reading JSON as Go does (docs/dialects/pando.md, section 3).

Messages are written as a pando writes them: all members in declaration order, including zero values. They are read as
Go reads them: names in any case, null and absent members as the zero value, and the last of two equal names.
"""

from __future__ import annotations

from msgspec import Struct, inspect

from dragoman.mappings.reflection import alternatives


class Wire(Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """Base class of all wire structs of pando. A member that Go omits when it is empty is then UNSET."""


def usual(value: object, shape: inspect.Type, path: str, dropped: list[str]) -> object:
    """Return an untyped value with the member names of `shape`, and add the paths of unknown members to `dropped`."""
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
    nullable = inspect.NoneType | inspect.RawType | inspect.AnyType
    return any(isinstance(member, nullable) for member in alternatives(shape))
