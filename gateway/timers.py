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
