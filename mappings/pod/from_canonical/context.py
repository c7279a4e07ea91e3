"""The context of a rule toward pod: the batch that is written, the counters, and the losses."""

from __future__ import annotations

from msgspec import Struct

from dragoman.mappings.losses import Losses
from dragoman.mappings.rules import RuleTable


class Counter(Struct):
    """Counts what a dialect does not: goes on after the last index seen."""

    last: int = -1

    def begin(self, index: int | None) -> int:
        """The index of what begins now."""
        self.last = self.last + 1 if index is None else index
        return self.last

    def current(self, index: int | None) -> int:
        """The index of what goes on or ends now."""
        if index is not None:
            self.last = index
        return max(self.last, 0)


class Context:
    """The state of one writer; `live` is False where each line stands alone (`translate`)."""

    def __init__(self, rules: RuleTable, *, live: bool = True) -> None:
        self.live = live
        self.session = ""
        self.turn = ""  # "" outside of any
        self.asked = False  # the run was ended by a question
        self.at = 0
        self.turns = Counter()
        self.model_calls = Counter()
        self.losses = Losses(rules)

    def lose(self, source: object, field: str = "", why: str = "") -> None:
        """Count that `source`, or a field of it, does not arrive."""
        self.losses.lose(source, field, why)
