"""Instances of canonical types, made by reflection: a new type or field is sampled without a line here."""

from __future__ import annotations

from typing import Any, get_args

from msgspec import Raw, inspect

from dragoman.mappings.reflection import struct_type


def least(kind: type[Any]) -> Any:
    """Return a minimal instance: only its required fields are set."""
    return _struct(kind, everything=False)


def full(kind: type[Any]) -> Any:
    """Return a full instance: no field has its default, and every list holds one item of each possible kind."""
    return _struct(kind, everything=True)


def samples(union: object) -> list[Any]:
    """Return a minimal and a full instance of each struct of a union."""
    return [make(kind) for kind in get_args(union) for make in (least, full)]


def _struct(kind: type[Any], *, everything: bool) -> Any:
    return kind(**{f.name: _value(f.type) for f in struct_type(kind).fields if f.required or everything})


def _value(shape: inspect.Type) -> Any:
    match shape:
        case inspect.StructType():
            return full(shape.cls)
        case inspect.LiteralType():
            return shape.values[-1]
        case inspect.UnionType():
            return next(_value(t) for t in shape.types if not isinstance(t, inspect.NoneType))
        case inspect.VarTupleType():
            item = shape.item_type
            return tuple(map(_value, item.types if isinstance(item, inspect.UnionType) else (item,)))
        case inspect.DictType():
            return {"pod.field": Raw(b'{"a":[1,null]}')}
        case inspect.BoolType():
            return True
        case inspect.IntType():
            return 7
        case inspect.FloatType():
            return 0.5
        case inspect.RawType() | inspect.AnyType():
            return Raw(b'{"a":[1,null]}')
        case inspect.StrType():
            return "text"
    raise TypeError(f"no sample of {shape}")
