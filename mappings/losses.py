"""What a writer of a dialect could not say: counted by kind, field and reason, with one bounded sample each.

Rules find a loss (`context.lose(...)`), the writer takes all of them once a batch. Bounded in rows and in what a row
holds: nothing that a peer says makes it grow.
"""

from __future__ import annotations

from msgspec import json, structs

from dragoman.mappings.dialect import Loss
from dragoman.mappings.rules import Nothing, RuleTable

SAMPLE_MAX = 200  # characters; enough to recognise a message, too few to carry a document
ROWS_MAX = 256  # kinds times fields times reasons; types are few, so this is only reached by a bug

OTHER = Loss(kind="other", why="more kinds of losses than are told apart", count=0)


class Losses:
    """The losses of one writer, whose table says why it has no word for a type. `take` empties it."""

    __slots__ = ("_rules", "rows")

    def __init__(self, rules: RuleTable) -> None:
        self._rules = rules
        self.rows: dict[tuple[str, str, str], Loss] = {}
        """Losses since the last `take`; a writer of a token looks here before it calls."""

    def lose(self, source: object, field: str = "", why: str = "") -> None:
        """`source`, or one field of it, does not arrive. `why` is the table's reason unless it is said here."""
        key = (type(source).__name__, field, why or self._why_none(source))
        known = self.rows.get(key)
        if known is None and len(self.rows) >= ROWS_MAX:
            key = (OTHER.kind, OTHER.field, OTHER.why)
            known = self.rows.get(key, OTHER)
        if known is None:
            known = Loss(kind=key[0], field=key[1], why=key[2], sample=_sample(source), count=0)
        self.rows[key] = structs.replace(known, count=known.count + 1)

    def take(self) -> list[Loss]:
        """The losses since the last call."""
        losses = list(self.rows.values())
        self.rows.clear()
        return losses

    def _why_none(self, source: object) -> str:
        entry = self._rules.entries.get(type(source))
        return entry.fidelity.why if entry is not None and isinstance(entry.fidelity, Nothing) else ""


def _sample(source: object) -> str:
    return json.encode(source)[: 4 * SAMPLE_MAX].decode(errors="ignore")[:SAMPLE_MAX]
