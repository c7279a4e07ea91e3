"""What was redacted: kind and place and how often, and never a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from msgspec import Struct

__all__ = ["Entry", "Ledger", "Note"]

Note = Callable[[str, str], None]
"""Told a kind and a place."""

ENTRIES_MAX = 1024  # kinds times places; their names come from us and from the configuration


class Entry(Struct, frozen=True, kw_only=True):
    """So many secrets of this kind stood at this place."""

    kind: str
    place: str
    count: int


class Ledger:
    """Of one recording."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def note(self, kind: str, place: str) -> None:
        """A secret was redacted."""
        key = (kind, place)
        self._counts[key if key in self._counts or len(self._counts) < ENTRIES_MAX else (kind, "elsewhere")] += 1

    @property
    def total(self) -> int:
        """How many there were."""
        return self._counts.total()

    def entries(self) -> list[Entry]:
        """The most frequent first."""
        return [Entry(kind=kind, place=place, count=count) for (kind, place), count in self._counts.most_common()]
