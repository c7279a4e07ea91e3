"""RFC 3339 times of the history and the list of conversations, to and from ns since the epoch.

Calendar arithmetic by hand: a mapping has no access to a clock, and the standard library's calendar comes with one.
The days are counted in years that begin in March, so that a leap day is a year's last.
"""

from __future__ import annotations

import re

__all__ = ["NS_PER_MS", "nanoseconds", "rfc3339"]

RFC_3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9})\d*)?(?:[Zz]|([+-])(\d\d):(\d\d))?", re.ASCII
)

NS = 1_000_000_000
NS_PER_MS = 1_000_000
DAY = 86_400
EPOCH_DAY = 719_468  # days from 0000-03-01 to 1970-01-01
YEARS_400 = 146_097  # days in 400 years


def rfc3339(at: int) -> str:
    """ns since the epoch in UTC, to the microsecond; a clock that stands outside of years 1 to 9999 gives the epoch."""
    days, second = divmod(at // NS, DAY)
    era, day_of_era = divmod(days + EPOCH_DAY, YEARS_400)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153  # 0 is March
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    year = era * 400 + year_of_era + (month <= 2)
    if not 1 <= year <= 9999:
        return rfc3339(0)
    fraction = at % NS // 1000
    clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    return f"{year:04}-{month:02}-{day:02}T{clock}" + (f".{fraction:06}Z" if fraction else "Z")


def nanoseconds(text: str) -> int:
    """An RFC 3339 time as ns since the epoch, one without a zone in UTC; 0 if it is none."""
    parts = RFC_3339.fullmatch(text)
    if parts is None:
        return 0
    year, month, day, hour, minute, second = (int(part) for part in parts.groups()[:6])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return 0
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    days = era * YEARS_400 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - EPOCH_DAY
    offset = (int(parts[9] or 0) * 60 + int(parts[10] or 0)) * (-60 if parts[8] == "-" else 60)
    return (days * DAY + hour * 3600 + minute * 60 + second - offset) * NS + int((parts[7] or "").ljust(9, "0"))
