"""Time the events of a replay as recorded, with an injected clock.

Each recorded pause is first cut to `idle_cap`, then divided by `speed`; at speed 0 there are no pauses. Delays do not
add up: the next pause counts from the time when this event was due.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.mappings.errors import ConfigError

__all__ = ["INSTANT", "Pace", "read_speed"]

INSTANT = 0.0
SPEED_MAX = 1_000_000.0


def read_speed(text: str) -> float:
    """Return the speed of `real`, `instant` or a factor such as `4`, `x4`, `0.5`; raise ConfigError for other text."""
    known = {"real": 1.0, "instant": INSTANT}
    if text in known:
        return known[text]
    try:
        speed = float(text.removeprefix("x"))
    except ValueError:
        speed = -1.0
    if not 0 < speed <= SPEED_MAX:
        raise ConfigError(f"invalid speed {text!r}: write real, instant, or a factor, for example 4")
    return speed


class Pace:
    """The pace of one replay. `clock` is monotonic, in seconds; `idle_cap` None keeps all pauses."""

    def __init__(self, clock: Callable[[], float], speed: float = 1.0, idle_cap: float | None = None) -> None:
        self._clock = clock
        self._speed = speed
        self._idle_cap = idle_cap
        self.instant = not speed
        self._last = 0  # time in the recording, in µs
        self._due = 0.0

    def begin(self, t: int) -> None:
        """Set the current time in the recording to `t` (µs)."""
        self._last, self._due = t, self._clock()

    def wait(self, t: int) -> float:
        """Return the seconds until the event at `t` is due, 0 or less if it is."""
        return self._at(t) - self._clock() if self._speed else 0.0

    def reached(self, t: int) -> None:
        """Note that the event at `t` was sent."""
        self._due = self._at(t) if self._speed else self._due
        self._last = max(self._last, t)

    def _at(self, t: int) -> float:
        pause = max(0, t - self._last) / 1e6
        if self._idle_cap is not None:
            pause = min(pause, self._idle_cap)
        return self._due + pause / self._speed
