"""What every smooth message has (docs/dialects/smooth.md, section 2)."""

from __future__ import annotations

from msgspec import Struct


class Closed(
    Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True, omit_defaults=True, rename="camel"
):
    """Base of everything on the wire: no undocumented keys, optional ones omitted when absent."""


class EventBase(Closed, frozen=True, kw_only=True, tag_field="type"):
    """Base of the events. `timestamp` is in ms since the epoch."""

    request_id: str | None = None
    timestamp: int | None = None


class ActionBase(Closed, frozen=True, kw_only=True, tag_field="action"):
    """Base of the actions; `request_id` is the client's own and comes back with the answer."""

    request_id: str | None = None
