"""Timers from an injected scheduler: `loop.call_later` in the gateway, fired by hand in tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A scheduled call that can be cancelled."""

    def cancel(self) -> None:
        """Cancel the call."""


Schedule = Callable[[float, Callable[[], None]], Timer]
"""Call a function after this many seconds; return a timer that can cancel the call."""


class Deadline:
    """A timer that waits for one call at most: to start it again cancels the call before.

    It refers to its callback only while it runs. So the callback's object can be freed afterwards without the garbage
    collector.
    """

    __slots__ = ("_schedule", "_timer")

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._timer: Timer | None = None

    @property
    def is_running(self) -> bool:
        return self._timer is not None

    def start(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call `callback` after this many seconds, and cancel the call before."""
        self.stop()
        self._timer = self._schedule(seconds, lambda: self._call(callback))

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _call(self, callback: Callable[[], None]) -> None:
        self._timer = None
        callback()
