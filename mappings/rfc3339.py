"""RFC 3339 times to and from ns since the epoch, for every dialect that writes them.

The calendar arithmetic is written by hand: mappings must not read a clock, and the standard library's modules for dates
can. Years begin in March here, so that a leap day is the last day of its year.
"""

from __future__ import annotations

import re
from functools import lru_cache

DATE_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(?:[Zz]|([+-])(\d\d):(\d\d))?", re.ASCII
)

NS = 1_000_000_000  # nanoseconds in a second
DAY = 86_400
EPOCH_DAY = 719_468  # days from 0000-03-01 to 1970-01-01
YEARS_400 = 146_097  # days in 400 years


@lru_cache(maxsize=64)  # the times of one stream come in order
def seconds(at: int) -> str:
    """Return seconds since the epoch as date and time without zone; "" outside of the years 1 to 9999."""
    days, second = divmod(at, DAY)
    date = _date(days)
    return f"{date}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}" if date else ""


@lru_cache(maxsize=64)  # a history has many times of one day
def _date(days: int) -> str:
    era, day_of_era = divmod(days + EPOCH_DAY, YEARS_400)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153  # 0 is March
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = era * 400 + year_of_era + (month <= 2)
    return f"{year:04}-{month:02}-{day:02}" if 1 <= year <= 9999 else ""


def parse(text: str) -> int | None:
    """Return a time as ns since the epoch, or None. A time without a zone is UTC."""
    parts = DATE_TIME.fullmatch(text)
    if parts is None:
        return None
    whole = _whole(parts[1])
    if whole is None:
        return None
    offset = (int(parts[4] or 0) * 60 + int(parts[5] or 0)) * (-60 if parts[3] == "-" else 60)
    return (whole - offset) * NS + int((parts[2] or "").ljust(9, "0"))


@lru_cache(maxsize=64)  # as above
def _whole(text: str) -> int | None:
    days = _days(text[:10])
    if days is None:
        return None
    return days * DAY + int(text[11:13]) * 3600 + int(text[14:16]) * 60 + int(text[17:19])


@lru_cache(maxsize=64)  # as for `_date`
def _days(text: str) -> int | None:
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * YEARS_400 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - EPOCH_DAY
