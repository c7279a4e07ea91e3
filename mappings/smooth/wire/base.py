"""Base classes of all smooth messages (docs/dialects/smooth.md, section 2)."""

from __future__ import annotations

from msgspec import Struct


class Closed(
    Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True, omit_defaults=True, rename="camel"
):
    """Base class of everything on the wire: no undocumented keys, absent optional ones are omitted."""


class EventBase(Closed, frozen=True, kw_only=True, tag_field="type"):
    """Base class of the events; `timestamp` is in ms since the epoch."""

    request_id: str | None = None
    timestamp: int | None = None


class ActionBase(Closed, frozen=True, kw_only=True, tag_field="action"):
    """Base class of the actions; the answer repeats the client's `request_id`."""

    request_id: str | None = None
