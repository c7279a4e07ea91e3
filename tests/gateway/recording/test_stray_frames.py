"""The bound of frames that reach no session: a burst is recorded, and the others are counted once a second."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.gateway.config.model import RouteLimits
from dragoman.gateway.recording.format import FrameLine
from dragoman.gateway.recording.pending import TapPoint
from dragoman.gateway.recording.session_recorder import StrayFrames
from dragoman.gateway.timers import Timer
from tests.services import Never

AT = TapPoint("smooth-1", "receive", "smooth")


class Bound:
    """A bound of two frames and one more a second, with its clock, its timers and its lines."""

    def __init__(self) -> None:
        self.now, self.timers, self.lines = 0, list[Callable[[], None]](), list[FrameLine]()
        limits = RouteLimits(stray_rate=1.0, stray_burst=2)
        self.frames = StrayFrames(limits, lambda: self.now, self._later, self.lines.append)

    def _later(self, _delay: float, ring: Callable[[], None]) -> Timer:
        self.timers.append(ring)
        return Never()


def test_frames_above_the_burst_are_not_taken_until_the_rate_allows_more() -> None:
    bound = Bound()
    assert [bound.frames.takes(AT, 1) for _ in range(3)] == [True, True, False]
    bound.now = 1_000_000_000
    assert [bound.frames.takes(AT, 1) for _ in range(2)] == [True, False]


def test_one_line_says_how_many_were_left_out_and_which_limit_that_was() -> None:
    bound = Bound()
    for _ in range(7):
        bound.frames.takes(AT, 1)
    (ring,) = bound.timers
    ring()
    (line,) = bound.lines
    assert (line.link, line.missing) == (
        "smooth-1",
        "5 frames are not recorded: the client sends too many that mean nothing, or are wrong (`stray_rate`)",
    )
