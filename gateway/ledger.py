"""The loss ledger: everything that did not arrive, counted, with one sample each (docs/design.md, section 6),
in which no secret stands.

Also the plain counters of the gateway (frames, events, merged deltas). Both are bounded: a kind beyond the bound is
counted under "other". What arrives without some of its fields is counted by its rule, for all sessions together: a
dialect's table is finite.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from dragoman.gateway.recording.redaction.shown import shown
from dragoman.mappings.dialect import Loss

__all__ = ["Entry", "Ledger"]

ENTRIES_MAX = 10_000  # a peer that invents field names must not fill the memory
NO_PLACE = "its form there has no place for them, where it had them"
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
        self._partial: Counter[tuple[str, str, str, str]] = Counter()
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
                    sample=shown(loss.sample[:SAMPLE_MAX], cut=True),
                )  # fmt: skip
            entry.count += loss.count

    def in_part(self, source: str, target: str, kind: type, fields: str) -> None:
        """One of this kind reached a peer by a rule that has no place for these fields."""
        self._partial[source, target, kind.__name__, fields] += 1

    def entries(self) -> list[Entry]:
        """All rows, the largest count first."""
        return sorted(self._entries.values(), key=lambda entry: -entry.count)

    def partial(self) -> list[Entry]:
        """What arrived without some fields, the largest count first; which of them it had at all is not looked at."""
        return [
            Entry(session="", source=source, target=target, kind=kind, field=fields, why=NO_PLACE, sample="", count=n)
            for (source, target, kind, fields), n in self._partial.most_common()
        ]
