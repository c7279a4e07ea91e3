"""What every event has: its visibility and its `ext`."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from dragoman.mappings.canonical.values import Ext, Visibility, snake_case

__all__ = ["EventBase"]


class EventBase(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="type", tag=snake_case):
    """Base of the events."""

    visibility: ClassVar[Visibility] = "public"

    ext: Ext | None = None
