"""The base class of every pando message, and the times and durations in them (docs/dialects/pando.md, section 3).

Messages are written as a pando writes them: all members in declaration order, including zero values. Times are RFC
3339, durations have Go's text.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Annotated

from msgspec import Meta, Struct

from dragoman.mappings.rfc3339 import NS, parse, seconds

ZERO = "0001-01-01T00:00:00Z"
"""Go's zero time, which means that the time is unknown."""

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""A number as Go reads it: with a larger one the whole message is refused."""

STRICT = re.compile(r"\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9}\d*)?(Z|[+-]\d\d:\d\d)", re.ASCII)


class Wire(Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True):
    """Base class of all wire structs of pando. A member that Go omits when it is empty is then UNSET."""


@lru_cache(maxsize=64)  # called twice for each message: to check it and to read it
def nanoseconds(text: str) -> int | None:
    """Return a time as ns since the epoch, 0 for the zero time, or None if Go would not read it."""
    if text == ZERO:
        return 0
    return parse(text) if STRICT.fullmatch(text) else None


def rfc3339(at: int) -> str:
    """Return ns since the epoch as UTC text without trailing zeros; 0 and impossible dates give the zero time."""
    text = seconds(at // NS) if at else ""
    if not text:
        return ZERO
    fraction = at % NS
    return f"{text}.{fraction:09}".rstrip("0") + "Z" if fraction else f"{text}Z"


def duration(ns: int) -> str:
    """Return a time span as Go writes it, rounded to seconds: `0s`, `1m5s`, `1h30m0s`, `26h0m3s`."""
    whole = max(0, (ns + NS // 2) // NS)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + f"{rest}s"
