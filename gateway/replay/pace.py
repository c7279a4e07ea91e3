"""When what is said: the recorded times, on a clock that is injected.

Each pause of the recording is first cut to `idle_cap`, then made shorter by `speed`; at speed 0 there is none. What is
late is not made later: the next pause is counted from when this was due.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.mappings.errors import ConfigError

__all__ = ["INSTANT", "Pace", "read_speed"]

INSTANT = 0.0
SPEED_MAX = 1_000_000.0


def read_speed(text: str) -> float:
    """`real`, `instant`, or how many times as fast: `4`, `x4`, `0.5`. ConfigError for anything else."""
    known = {"real": 1.0, "instant": INSTANT}
    if text in known:
        return known[text]
    try:
        speed = float(text.removeprefix("x"))
    except ValueError:
        speed = -1.0
    if not 0 < speed <= SPEED_MAX:
        raise ConfigError(f"speed {text!r}: write real, instant, or how many times as fast, for example 4")
    return speed


class Pace:
    """The pace of one replay. `clock` is monotonic, in seconds; `idle_cap` None leaves pauses as they were."""

    def __init__(self, clock: Callable[[], float], speed: float = 1.0, idle_cap: float | None = None) -> None:
        self._clock = clock
        self._speed = speed
        self._idle_cap = idle_cap
        self.instant = not speed
        self._last = 0  # µs of the recording
        self._due = 0.0

    def begin(self, t: int) -> None:
        """It is `t` in the recording now."""
        self._last, self._due = t, self._clock()

    def wait(self, t: int) -> float:
        """Seconds until what stands at `t` is due; not more than 0 if it is."""
        return self._at(t) - self._clock() if self._speed else 0.0

    def reached(self, t: int) -> None:
        """What stands at `t` was said."""
        self._due = self._at(t) if self._speed else self._due
        self._last = max(self._last, t)

    def _at(self, t: int) -> float:
        pause = max(0, t - self._last) / 1e6
        if self._idle_cap is not None:
            pause = min(pause, self._idle_cap)
        return self._due + pause / self._speed
