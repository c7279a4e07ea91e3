"""RFC 3339 times to and from ns since the epoch, for every dialect that writes them.

Of the standard library only the calendar of `datetime` is used here: mappings must not read a clock.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import lru_cache

DATE_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(?:[Zz]|([+-])(\d\d):(\d\d))?", re.ASCII
)

NS = 1_000_000_000  # nanoseconds in a second
DAY = 86_400
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # all times are UTC, and written without a zone here


@lru_cache(maxsize=64)  # the times of one stream come in order
def seconds(at: int) -> str:
    """Return seconds since the epoch as date and time without zone; "" outside of the years 1 to 9999."""
    try:
        return (EPOCH + timedelta(seconds=at)).isoformat()
    except OverflowError:
        return ""


def parse(text: str) -> int | None:
    """Return a time as ns since the epoch, or None. A time without a zone is UTC."""
    parts = DATE_TIME.fullmatch(text)
    whole = _whole(parts[1]) if parts is not None else None
    if parts is None or whole is None:
        return None
    offset = (int(parts[4] or 0) * 60 + int(parts[5] or 0)) * (-60 if parts[3] == "-" else 60)
    return (whole - offset) * NS + int((parts[2] or "").ljust(9, "0"))


@lru_cache(maxsize=64)  # as above
def _whole(text: str) -> int | None:
    """Return the seconds from the epoch to a date and time without zone; None if there is no such time."""
    try:
        since = datetime.fromisoformat(text) - EPOCH
    except ValueError:
        return None
    return since.days * DAY + since.seconds
