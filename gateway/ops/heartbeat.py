"""Watch the turns of an event loop from another thread: when it turned last, and how late its timers are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from dragoman.gateway.observability.histogram import Histogram

BEAT = 0.25  # seconds between two beats: a beat costs 10 us
LAG_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)  # seconds; one step of the loop takes 0.01


class LoopHeartbeat:
    """A timer of an event loop that notes the time of each beat. `clock` returns seconds.

    The loop writes and other threads only read, so no lock is needed.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due = clock()
        self._timer: asyncio.TimerHandle | None = None
        self.lag = Histogram(LAG_BUCKETS)
        """Seconds by which the beats were late."""

    def start(self) -> None:
        """Beat from now on, in the running event loop."""
        self._due = self._clock() + BEAT
        self._timer = asyncio.get_running_loop().call_later(BEAT, self.beat)

    def beat(self) -> None:
        """Note how late this beat is, and schedule the next one."""
        self.lag.add_value(max(0.0, self._clock() - self._due))
        self.start()

    def stop(self) -> None:
        """Stop beating."""
        if self._timer is not None:
            self._timer.cancel()

    @property
    def stuck_for(self) -> float:
        """Seconds by which the next beat is late now."""
        return max(0.0, self._clock() - self._due)
