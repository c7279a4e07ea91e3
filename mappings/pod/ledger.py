"""What a writer of pod messages could not say, counted by kind and field with one bounded sample."""

from __future__ import annotations

from msgspec import json, structs

from mappings.dialect import Loss
from mappings.rules import Nothing, Rules

__all__ = ["Ledger"]

SAMPLE = 200  # characters; enough to recognise a message, too few to carry a secret file
KINDS = 256  # kinds times fields; types are few, so this is only reached by a bug


class Ledger:
    """The losses of one writer. Rules call `lose`; `take` empties it."""

    def __init__(self, table: Rules) -> None:
        self._table = table
        self._losses: dict[tuple[str, str, str], Loss] = {}

    def lose(self, source: object, field: str = "", why: str = "") -> None:
        """`source`, or one field of it, has no place on the wire."""
        entry = self._table.entries.get(type(source))
        if not why and entry is not None and isinstance(entry.fidelity, Nothing):
            why = entry.fidelity.why
        key = (type(source).__name__, field, why)
        known = self._losses.get(key)
        if known is not None:
            self._losses[key] = structs.replace(known, count=known.count + 1)
        elif len(self._losses) < KINDS:
            sample = json.encode(source).decode()[:SAMPLE]
            self._losses[key] = Loss(kind=key[0], field=field, why=why, sample=sample)

    def take(self) -> list[Loss]:
        """The losses since the last call."""
        if not self._losses:
            return []
        losses = list(self._losses.values())
        self._losses.clear()
        return losses
