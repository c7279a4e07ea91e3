"""Documented fields of codewhale without a canonical place, carried in `ext` as `"codewhale.field"` -> JSON."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import UNSET, Raw

from dragoman.mappings.canonical.values import Ext

__all__ = ["carried", "given", "keep", "raw"]

ENCODER = msgspec.json.Encoder()
T = TypeVar("T")
D = TypeVar("D")


def raw(value: object) -> Raw:
    """`value` as JSON."""
    return Raw(ENCODER.encode(value))


def keep(**fields: object) -> Ext | None:
    """An ext of the fields that are set."""
    return {f"codewhale.{name}": raw(value) for name, value in fields.items() if value is not UNSET} or None


def carried(ext: Ext | None, field: str) -> Raw | None:
    """The JSON that `ext` carries of `field`, None if nothing."""
    return None if ext is None else ext.get(f"codewhale.{field}")


def given(ext: Ext | None, field: str, shape: type[T], default: D) -> T | D:
    """What `ext` carries of `field`, `default` if nothing or nothing of this shape."""
    json = carried(ext, field)
    if json is None:
        return default
    try:
        return msgspec.json.decode(json, type=shape)
    except msgspec.DecodeError:
        return default
