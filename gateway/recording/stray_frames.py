"""Bound the frames of clients that are recorded although they reach no session, and the answers to them.

A client may send any number of such frames, and each is answered with an error. Above the rate `stray_rate` with the
burst `stray_burst`, a session records once a second only how many there were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from dragoman.gateway.config.model import RouteLimits
from dragoman.gateway.overload.rates import TokenBucket
from dragoman.gateway.recording.lines import FrameLine
from dragoman.gateway.recording.pending import TapPoint
from dragoman.gateway.timers import Schedule

LEFT_OUT = "frames are not recorded: the client sends too many that mean nothing, or are wrong (`stray_rate`)"
EVERY = 1.0  # seconds between two lines that count those which are left out


class StrayFrames:
    """Counts the stray frames of one recording. `record` writes a line that says how many were left out."""

    def __init__(
        self,
        limits: RouteLimits,
        monotonic: Callable[[], int],
        later: Schedule,
        record: Callable[[FrameLine], None],
    ) -> None:
        self._rate = TokenBucket(limits.stray_rate, limits.stray_burst, monotonic)
        self._later = later
        self._record = record
        self._left_out = Counter[TapPoint]()

    def takes(self, tapped: TapPoint, count: int) -> bool:
        """Return True if `count` frames may be recorded; otherwise count them."""
        if self._rate.take(count):
            return True
        if not self._left_out:
            self._later(EVERY, self.tell_left_out)
        self._left_out[tapped] += count
        return False

    def tell_left_out(self) -> None:
        """Record how many frames were left out since the last time."""
        left_out, self._left_out = self._left_out, Counter()
        for at, count in left_out.items():
            self._record(FrameLine(link=at.link, dir=at.dir, dialect=at.dialect, missing=f"{count} {LEFT_OUT}"))
