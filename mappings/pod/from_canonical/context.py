"""The context that a rule toward pod gets beside its item: time and session of the batch, counters, and losses."""

from __future__ import annotations

from msgspec import Struct

from dragoman.mappings.losses import Losses
from dragoman.mappings.pod.wire.values import U64_MAX


class Counter(Struct):
    """A counter for an index that other dialects do not send; it continues after the last index that a pod sent.

    An index is at most U64_MAX, above which no pod client reads it: a pod may have sent that number.
    """

    last: int = -1

    def begin(self, index: int | None) -> int:
        """Return the index of the turn or call that begins now."""
        self.last = min(self.last + 1 if index is None else index, U64_MAX)
        return self.last

    def current(self, index: int | None) -> int:
        """Return the index of the open turn or call."""
        if index is not None:
            self.last = min(index, U64_MAX)
        return max(self.last, 0)


class Context(Losses):
    """The state of one writer; `alone` is True if each line is translated without the others (`translate`)."""

    def __init__(self, *, alone: bool = False) -> None:
        super().__init__()
        self.alone = alone
        self.session = ""
        self.turn = ""  # UUID of the turn, "" outside of any turn
        self.parked = False  # True after a question in words ended the run
        self.at = 0
        self.turns = Counter()
        self.model_calls = Counter()
