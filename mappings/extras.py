"""Opaque JSON, and `ext`: fields of a dialect without a canonical counterpart, as `"dialect.field"` -> JSON."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman.mappings.canonical.values import Ext

ENCODER = msgspec.json.Encoder()
T = TypeVar("T")
D = TypeVar("D")


def raw(value: object) -> Raw:
    """Return `value` as JSON."""
    return Raw(ENCODER.encode(value))


def as_json(value: object) -> str:
    """Return `value` as JSON text."""
    return ENCODER.encode(value).decode()


def read_raw(json: Raw | UnsetType | None, shape: type[T]) -> T | None:
    """Return JSON as a value of `shape`; None if the JSON is missing or has another shape."""
    try:
        return None if json is None or json is UNSET else msgspec.json.decode(json, type=shape)
    except msgspec.DecodeError:
        return None


class Extras:
    """Writer and reader of the fields of one dialect in `ext`."""

    def __init__(self, dialect: str) -> None:
        self._prefix = f"{dialect}."

    def keep(self, **fields: object) -> Ext | None:
        """Return an ext with all fields that are not UNSET; None if there are none."""
        kept: Ext = {}
        for name, value in fields.items():  # no comprehension: it would be a further call, and mostly nothing is kept
            if value is not UNSET:
                kept[self._prefix + name] = raw(value)
        return kept or None

    def carried(self, ext: Ext | None, field: str) -> Raw | None:
        """Return the JSON of `field` in `ext`, None if it is missing."""
        return None if ext is None else ext.get(self._prefix + field)

    def given(self, ext: Ext | None, field: str, shape: type[T], default: D) -> T | D:
        """Return the value of `field` in `ext`; `default` if it is missing or has another type."""
        json = None if ext is None else ext.get(self._prefix + field)
        if json is None:
            return default
        try:
            return msgspec.json.decode(json, type=shape)
        except msgspec.DecodeError:
            return default
