"""A deadline calls one function at most, and refers to none that it does not wait for."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

from dragoman.gateway.timers import Deadline, Schedule
from tests.gateway.in_memory import ManualClock


def test_a_callback_is_called_once_after_its_time() -> None:
    time, calls = ManualClock(), list[str]()
    deadline = Deadline(time.later)
    deadline.start(2, lambda: calls.append("first"))
    time.passes(1)
    assert (deadline.is_running, [*calls]) == (True, [])
    time.passes(10)
    assert (deadline.is_running, calls) == (False, ["first"])


def test_a_deadline_that_is_started_again_waits_for_the_later_call_alone() -> None:
    time, calls = ManualClock(), list[str]()
    deadline = Deadline(time.later)
    deadline.start(1, lambda: calls.append("first"))
    deadline.start(2, lambda: calls.append("second"))
    time.passes(10)
    assert calls == ["second"]


def test_a_stopped_deadline_calls_nothing() -> None:
    time, calls = ManualClock(), list[str]()
    deadline = Deadline(time.later)
    deadline.start(1, lambda: calls.append("first"))
    deadline.stop()
    assert not deadline.is_running
    time.passes(10)
    assert not calls


def test_a_callback_may_start_its_deadline_again() -> None:
    time, calls = ManualClock(), list[float]()
    deadline = Deadline(time.later)

    def again() -> None:
        calls.append(time.seconds)
        deadline.start(3, again)

    deadline.start(3, again)
    time.passes(7)
    assert calls == [3, 6]
    assert deadline.is_running


class Owner:
    """An object whose method is the callback of its own deadline."""

    def __init__(self, schedule: Schedule) -> None:
        self.deadline = Deadline(schedule)
        self.deadline.start(1, self.expire)

    def expire(self) -> None:
        """Do nothing."""


class OneCall:
    """A scheduler of one call, which cannot be cancelled and keeps the call until it has happened."""

    def __init__(self) -> None:
        self.callback: Callable[[], None] | None = None

    def schedule(self, _seconds: float, callback: Callable[[], None]) -> OneCall:
        self.callback = callback
        return self

    def call(self) -> None:
        callback, self.callback = self.callback, None
        assert callback is not None
        callback()

    def cancel(self) -> None:
        raise AssertionError


def test_an_owner_whose_deadline_is_over_is_freed_with_its_last_reference() -> None:
    scheduler = OneCall()
    gc.disable()
    try:
        owner = weakref.ref(Owner(scheduler.schedule))
        assert owner() is not None, "its deadline refers to it"
        scheduler.call()
        assert owner() is None
    finally:
        gc.enable()
