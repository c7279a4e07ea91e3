"""When the gathered steps of a recording are flushed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.overload.memory import MemoryBudget
from dragoman.gateway.recording.flush_plan import FLUSH, GATHER, ROUND, FlushPlan
from dragoman.gateway.recording.places import Folder
from dragoman.gateway.recording.recordings import AT_ONCE, Recordings
from dragoman.gateway.recording.writer import Writer
from tests.gateway.in_memory import ManualClock
from tests.gateway.recording.recorded_session import IN_LOOP, WITHOUT_RULES, Disk


class PlanWithClock:
    """A flush plan with a clock (µs) and timers that a test controls. `wanted` has the seconds that it asked for."""

    def __init__(self, window: int = 0) -> None:
        self.now = 0
        self.wanted: list[float] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.plan = FlushPlan(self.wanted.append, self.later, lambda: self.now, window)

    def ring(self) -> None:
        delay, call = self.timers.pop()
        self.now += round(delay * 1e6)
        call()

    def later(self, delay: float, call: Callable[[], None]) -> Any:
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
    assert made.wanted == [FLUSH]
    made.plan.start_flush()
    made.plan.flush_soon()
    assert made.wanted == [FLUSH, FLUSH]


def test_a_text_is_gathered_for_a_second_without_redaction() -> None:
    made = PlanWithClock()
    made.plan.flush_next(streams=True)
    assert [delay for delay, _ in made.timers] == [GATHER - ROUND - FLUSH]
    made.ring()
    assert made.wanted == [ROUND]


def test_a_text_is_gathered_for_three_quarters_of_the_window_of_redaction() -> None:
    made = PlanWithClock(window=4_000_000)
    made.plan.flush_next(streams=True)
    assert [delay for delay, _ in made.timers] == [3.0 - ROUND - FLUSH]


def test_a_round_is_at_most_a_tenth_of_the_time_that_a_text_waits() -> None:
    made = PlanWithClock(window=400_000)
    made.plan.flush_next(streams=True)
    made.ring()
    assert (made.wanted, made.now) == ([0.03], 250_000)


def test_a_step_of_a_recording_whose_text_is_due_is_flushed_soon() -> None:
    made = PlanWithClock()
    made.plan.flush_next(streams=True)
    made.ring()
    made.plan.flush_soon()
    assert made.wanted == [ROUND, FLUSH]


def test_a_later_time_needs_no_second_timer() -> None:
    made = PlanWithClock()
    made.plan.flush_at(1_000_000)
    made.plan.flush_at(1_500_000)
    made.ring()
    assert (made.wanted, [delay for delay, _ in made.timers]) == ([], [0.5])
    made.ring()
    assert made.wanted == [FLUSH]


def test_a_cancelled_flush_plan_requests_no_flush() -> None:
    made = PlanWithClock()
    made.plan.flush_next(streams=True)
    made.plan.cancel()
    assert (made.timers, made.plan.due) == ([], None)


class CountedDisk(Disk):
    """A disk that counts the rounds of the writer."""

    rounds = 0

    def flush(self) -> None:
        self.rounds += 1


def test_texts_that_are_due_within_a_round_are_flushed_together_and_in_time() -> None:
    time, disk = ManualClock(), CountedDisk(Folder(Path("/rec")))
    recordings = Recordings(cast("Writer", disk), IN_LOOP, Ledger(), MemoryBudget(), time.later, redactor=WITHOUT_RULES)
    begun, flushed = dict[int, float](), dict[int, float]()

    def flush(number: int) -> None:
        flushed[number] = time.seconds

    for number in range(40):
        wants_flush = partial(recordings.wants_flush, partial(flush, number))
        plan = FlushPlan(wants_flush, time.later, lambda: round(time.seconds * 1e6), window=0)
        begun[number] = time.seconds
        plan.flush_next(streams=True)
        time.passes(0.002)
    time.passes(GATHER)
    assert disk.rounds == 1
    assert flushed.keys() == begun.keys()
    assert all(flushed[number] - begun[number] <= GATHER for number in begun)


def test_the_loop_turns_to_other_work_between_a_few_recordings() -> None:
    made, disk = PlanWithClock(), CountedDisk(Folder(Path("/rec")))
    recordings = Recordings(cast("Writer", disk), IN_LOOP, Ledger(), MemoryBudget(), made.later, redactor=WITHOUT_RULES)
    flushed: list[int] = []
    for number in range(AT_ONCE + 1):
        recordings.wants_flush(partial(flushed.append, number))
    made.ring()
    assert (flushed, disk.rounds) == ([*range(AT_ONCE)], 0)
    assert [delay for delay, _ in made.timers] == [0]
    made.ring()
    assert (flushed, disk.rounds) == ([*range(AT_ONCE + 1)], 1)


def test_a_step_does_not_wait_for_the_round_of_texts() -> None:
    time, disk = ManualClock(), CountedDisk(Folder(Path("/rec")))
    recordings = Recordings(cast("Writer", disk), IN_LOOP, Ledger(), MemoryBudget(), time.later, redactor=WITHOUT_RULES)
    flushed: list[str] = []
    recordings.wants_flush(partial(flushed.append, "text"), ROUND)
    recordings.wants_flush(partial(flushed.append, "step"))
    time.passes(FLUSH)
    assert flushed == ["text", "step"]
    time.passes(ROUND)
    assert disk.rounds == 1
