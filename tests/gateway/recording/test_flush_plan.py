"""When the gathered steps of a recording are flushed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.gateway.recording.flush_plan import GATHER, FlushPlan


class PlanWithClock:
    """A flush plan with a clock (µs) and timers that a test controls. `flushes` counts what it asked for."""

    def __init__(self, window: int = 0) -> None:
        self.now = 0
        self.flushes = 0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.plan = FlushPlan(self._note_flush, self._later, lambda: self.now, window)

    def ring(self) -> None:
        delay, call = self.timers.pop()
        self.now += round(delay * 1e6)
        call()

    def _note_flush(self) -> None:
        self.flushes += 1

    def _later(self, delay: float, call: Callable[[], None]) -> Any:
        self.timers.append((delay, call))
        timers = self.timers

        class Timer:
            def cancel(self) -> None:
                timers.clear()

        return Timer()


def test_a_flush_is_asked_for_once_until_it_starts() -> None:
    made = PlanWithClock()
    made.plan.flush_soon()
    made.plan.flush_soon()
    assert made.flushes == 1
    made.plan.start_flush()
    made.plan.flush_soon()
    assert made.flushes == 2


def test_a_text_is_gathered_for_a_second_without_redaction() -> None:
    made = PlanWithClock()
    made.plan.flush_next(streams=True)
    assert [delay for delay, _ in made.timers] == [GATHER]
    made.ring()
    assert made.flushes == 1


def test_a_text_is_gathered_for_three_quarters_of_the_window_of_redaction() -> None:
    made = PlanWithClock(window=4_000_000)
    made.plan.flush_next(streams=True)
    assert [delay for delay, _ in made.timers] == [3.0]


def test_a_later_time_needs_no_second_timer() -> None:
    made = PlanWithClock()
    made.plan.flush_at(1_000_000)
    made.plan.flush_at(1_500_000)
    made.ring()
    assert (made.flushes, [delay for delay, _ in made.timers]) == (0, [0.5])
    made.ring()
    assert made.flushes == 1


def test_a_cancelled_flush_plan_requests_no_flush() -> None:
    made = PlanWithClock()
    made.plan.flush_next(streams=True)
    made.plan.cancel()
    assert (made.timers, made.plan.due) == ([], None)
