"""The loss ledger: everything that did not arrive, counted, with one sample each (design.md, section 6).

Also the plain counters of the gateway (frames, events, merged deltas). Both are bounded: a kind beyond the bound is
counted under "other".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from mappings.dialect import Loss

__all__ = ["Entry", "Ledger"]

ENTRIES_MAX = 10_000  # a peer that invents field names must not fill the memory
SAMPLE_MAX = 200  # characters: enough to recognise, too little to leak a document


class Entry(Struct, kw_only=True):
    """One row: `source` and `target` are dialect names, `field` "" means the whole message."""

    session: str
    source: str
    target: str
    kind: str
    field: str
    why: str
    sample: str
    count: int = 0


class Ledger:
    """Counts losses by (session, source, target, kind, field, why), and events by name."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str, str, str, str, str], Entry] = {}
        self.counters: Counter[str] = Counter()

    def record(self, losses: Iterable[Loss], *, session: str = "", source: str = "", target: str = "") -> None:
        """Add these losses."""
        for loss in losses:
            key = (session, source, target, loss.kind, loss.field, loss.why)
            if key not in self._entries and len(self._entries) >= ENTRIES_MAX:
                key = ("", source, target, "other", "", "the ledger is full")
            entry = self._entries.get(key)
            if entry is None:
                entry = self._entries[key] = Entry(
                    session=key[0], source=source, target=target, kind=key[3], field=key[4], why=key[5],
                    sample=loss.sample[:SAMPLE_MAX],
                )  # fmt: skip
            entry.count += loss.count

    def entries(self) -> list[Entry]:
        """All rows, the largest count first."""
        return sorted(self._entries.values(), key=lambda entry: -entry.count)
