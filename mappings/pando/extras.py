"""Documented fields of pando without a canonical place, carried in `ext` as `"pando.field"` -> JSON."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import UNSET, Raw

from dragoman.mappings.canonical.values import Ext

__all__ = ["given", "keep", "raw"]

ENCODER = msgspec.json.Encoder()
T = TypeVar("T")


def raw(value: object) -> Raw:
    """`value` as JSON."""
    return Raw(ENCODER.encode(value))


def keep(**fields: object) -> Ext | None:
    """An ext of the fields that are set."""
    return {f"pando.{name}": raw(value) for name, value in fields.items() if value is not UNSET} or None


def given(ext: Ext | None, field: str, shape: type[T], default: T) -> T:
    """What `ext` carries of `field`, `default` if nothing or nothing of this shape."""
    carried = None if ext is None else ext.get(f"pando.{field}")
    if carried is None:
        return default
    try:
        return msgspec.json.decode(carried, type=shape)
    except msgspec.DecodeError:
        return default
