"""Decide when the gathered steps of one recording are flushed.

A step is flushed soon, together with those of other recordings. A text that streams is gathered for longer, because
redacting and encoding many of its pieces at once costs much less than one by one:

    without redaction   GATHER seconds, or until the text ends
    with redaction      three quarters of the redactor's window, or until the text ends

Texts of several recordings that are due within ROUND are flushed together. A sync of the disk costs the same CPU for
one file and for many, and code that runs once costs twice as much as in a row.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.gateway.timers import Deadline, Schedule

FLUSH = 0.02  # seconds: with the writer's round, a step is on the disk within 50 ms
GATHER = 1.0  # seconds that pieces of a text wait: a kill -9 loses this much of it
ROUND = 0.1  # seconds, at most a tenth of those that pieces of a text wait
MARGIN = int(2 * FLUSH * 1e6)  # µs from the end of a timer until the flush that it causes is over


class FlushPlan:
    """The next flush of one recording. `wants_flush` asks for a flush within so many seconds.

    `now` returns the time in µs. `window` is the redactor's (µs), or 0 without redaction.
    """

    __slots__ = ("_gather", "_now", "_round", "_timer", "_wants_flush", "_within", "due", "text_ends", "waits")

    def __init__(
        self, wants_flush: Callable[[float], None], later: Schedule, now: Callable[[], int], window: int
    ) -> None:
        self._wants_flush = wants_flush
        self._now = now
        longest = window * 3 / 4e6 or GATHER
        self._round = min(ROUND, longest / 10)
        self._gather = int((longest - self._round - FLUSH) * 1e6)
        self._timer = Deadline(later)
        self._within = FLUSH  # seconds in which a flush is wanted once it is due
        self.waits = False
        """True while the recording waits to be flushed soon."""
        self.text_ends = False
        """True if a text may have ended: what the redactor holds back can be written."""
        self.due: int | None = None
        """The time (µs) at which a text that streams is flushed, or None if none is gathered."""

    def flush_soon(self) -> None:
        """Flush within FLUSH."""
        if not self.waits:
            self.waits = True
            self._wants_flush(FLUSH)

    def flush_at(self, due: int, within: float = FLUSH) -> None:
        """Flush within so many seconds from this time (µs), unless another flush comes first."""
        self.due, self._within = due, within
        if not self._timer.is_running:
            self._timer.start(max((due - self._now()) / 1e6, FLUSH), self._look)

    def flush_next(self, streams: bool) -> None:
        """Flush soon, or later if a text streams, so that it is redacted and encoded in larger pieces."""
        if streams:
            self.flush_at(self._now() + self._gather, self._round)
        else:
            self.flush_soon()

    def end_text(self) -> None:
        """Note that a text may have ended, so the next step is flushed soon."""
        self.text_ends = True

    def forget_text(self) -> None:
        """Note that no text is gathered any more."""
        self.due = None

    def start_flush(self) -> None:
        """Note that the gathered steps are flushed now."""
        self.waits = self.text_ends = False

    def cancel(self) -> None:
        """Stop the timer that flushes."""
        self.due = None
        self._timer.stop()

    def _look(self) -> None:
        if self.due is None:
            return
        if self._now() < self.due:
            self.flush_at(self.due, self._within)  # that text was written meanwhile, and more came
        elif self._within > FLUSH:
            self._wants_flush(self._within)  # but a step of this recording is still flushed soon
        else:
            self.flush_soon()
