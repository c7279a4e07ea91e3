"""Count durations by their size, as Prometheus does: how many were at most as long as each of some bounds."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate


class Histogram:
    """Counts of values by `bounds`, which ascend. One thread adds values and others only read, so no lock is needed."""

    __slots__ = ("_counts", "bounds", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        """The sum of all values."""

    def add_value(self, value: float, number: int = 1) -> None:
        """Count a value, which stands for this number of values."""
        self._counts[bisect_left(self.bounds, value)] += number
        self.total += value * number

    @property
    def number(self) -> int:
        """Return how many values were counted."""
        return sum(self._counts)

    def count_up_to(self) -> list[int]:
        """Return, for each bound and then for all values, how many values were no larger."""
        return list(accumulate(self._counts))
