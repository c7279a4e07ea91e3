"""What was redacted: kind and place and how often, and never a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from msgspec import Struct

__all__ = ["Entry", "Found", "Ledger", "Note", "NoteLine"]

Note = Callable[[str, str], None]
"""Told a kind and a place."""

NoteLine = Callable[[str, str, int], None]
"""Told a kind, a place and the seq of a line."""

ENTRIES_MAX = 1024  # kinds times places; their names come from us and from the configuration


class Entry(Struct, frozen=True, kw_only=True):
    """So many secrets of this kind stood at this place."""

    kind: str
    place: str
    count: int


class Found(Struct, frozen=True, kw_only=True):
    """A secret of this kind stood at this place of the line with this seq."""

    seq: int
    kind: str
    place: str


class Ledger:
    """Of one recording. `hear` is told each secret by itself."""

    def __init__(self, hear: Callable[[Found], None] | None = None) -> None:
        self._hear = hear
        self._counts: Counter[tuple[str, str]] = Counter()

    def note(self, kind: str, place: str, seq: int) -> None:
        """A secret was redacted."""
        if self._hear is not None:
            self._hear(Found(seq=seq, kind=kind, place=place))
        key = (kind, place)
        self._counts[key if key in self._counts or len(self._counts) < ENTRIES_MAX else (kind, "elsewhere")] += 1

    @property
    def total(self) -> int:
        """How many there were."""
        return self._counts.total()

    def entries(self) -> list[Entry]:
        """The most frequent first."""
        return [Entry(kind=kind, place=place, count=count) for (kind, place), count in self._counts.most_common()]
