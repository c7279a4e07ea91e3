"""Count the bytes that one peer, or one session, makes the gateway hold.

Each holder of memory adds and subtracts integers. The owner of the budget hears of it only when the size crosses a
step, so that counting costs nothing while little is held.
"""

from __future__ import annotations

from collections.abc import Callable

STEP = 16 * 1024  # less than an idle client costs in all, so that rounding up adds little


def _unwatched(_change: int) -> None:
    """Ignore the change: the Meter has no owner of a budget."""


class Meter:
    """The number of bytes held (`size`), and `counted`: that number rounded up to a multiple of STEP."""

    __slots__ = ("_report", "counted", "size")

    def __init__(self) -> None:
        self.size = 0
        self.counted = STEP
        self._report: Callable[[int], None] = _unwatched

    def add(self, size: int) -> None:
        """Count `size` bytes more, or fewer if it is negative."""
        self.size += size
        if not self.counted - STEP <= self.size < self.counted:
            counted = (self.size // STEP + 1) * STEP
            change, self.counted = counted - self.counted, counted
            self._report(change)

    def watch(self, report: Callable[[int], None] = _unwatched) -> None:
        """Call `report` with each change of `counted` from now on; without an argument, stop that.

        The function that is called may free the memory at once.
        """
        self._report = report
