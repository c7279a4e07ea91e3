"""Documented fields of smooth without a canonical place, carried in `ext` as `"smooth.field"` -> JSON."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw

from dragoman.mappings.canonical.values import Ext

__all__ = ["as_json", "given", "keep", "omits_supports", "raw"]

ENCODER = msgspec.json.Encoder()


def raw(value: object) -> Raw:
    """`value` as JSON."""
    return Raw(ENCODER.encode(value))


def as_json(value: object) -> str:
    """`value` as JSON text."""
    return ENCODER.encode(value).decode()


def keep(**fields: object) -> Ext | None:
    """An ext of the fields that are set."""
    return {f"smooth.{name}": raw(value) for name, value in fields.items() if value is not UNSET} or None


def given(ext: Ext | None, field: str) -> object:
    """What `ext` carries of `field`, UNSET if nothing."""
    if ext is None:
        return UNSET
    carried = ext.get(f"smooth.{field}")
    return UNSET if carried is None else msgspec.json.decode(carried)


def omits_supports(ext: Ext | None) -> bool:
    """Return True if a smooth client opened or resumed a conversation without `supports`."""
    return given(ext, "supports") is None
