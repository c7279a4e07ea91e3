"""Deadlines, as an injected scheduler: `loop.call_later` live, rung by hand in tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

__all__ = ["Later", "Schedule", "Timer"]


class Timer(Protocol):
    """A deadline that can be called off."""

    def cancel(self) -> None:
        """It will not ring."""


Schedule = Callable[[float, Callable[[], None]], Timer]
"""Call a function in so many seconds; return the timer, which can be cancelled before."""

Later = Schedule
