"""Base classes of all smooth messages (docs/dialects/smooth.md, section 2), and the times in histories and lists."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from dragoman.mappings.canonical.values import COUNT_MAX
from dragoman.mappings.rfc3339 import NS, parse, seconds

NS_PER_MS = 1_000_000

Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
"""A number or a time. The schemas do not bound it; other dialects do."""


class Closed(
    Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True, omit_defaults=True, rename="camel"
):
    """Base class of everything on the wire: no undocumented keys, absent optional ones are omitted."""


class EventBase(Closed, frozen=True, kw_only=True, tag_field="type"):
    """Base class of the events; `timestamp` is in ms since the epoch."""

    request_id: str | None = None
    timestamp: Count | None = None


class ActionBase(Closed, frozen=True, kw_only=True, tag_field="action"):
    """Base class of the actions; the answer repeats the client's `request_id`."""

    request_id: str | None = None


def rfc3339(at: int) -> str:
    """Return ns since the epoch as UTC, to the microsecond; times outside of the years 1 to 9999 give the epoch."""
    text = seconds(at // NS)
    if not text:
        return rfc3339(0)
    fraction = at % NS // 1000
    return text + (f".{fraction:06}Z" if fraction else "Z")


def nanoseconds(text: str) -> int:
    """Return an RFC 3339 time as ns since the epoch, 0 if it is invalid. A time without a zone is UTC."""
    return parse(text) or 0
