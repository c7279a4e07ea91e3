"""RFC 3339 times of the history and the list of conversations, to and from ns since the epoch."""

from __future__ import annotations

from dragoman.mappings.rfc3339 import NS, parse, seconds

NS_PER_MS = 1_000_000


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
