"""Actions wait until a backend has listed its sessions, and was asked about those that the list lacks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

import pytest

from dragoman.gateway.backends import asking
from dragoman.gateway.backends.list_wait import DOUBTS_AT_ONCE, ListWait
from dragoman.gateway.config.model import Limits
from dragoman.gateway.overload.fair_queue import STEP, FairQueue
from tests.gateway.in_memory import ManualClock
from tests.services import services

WAIT = 2.0


class Waiting:
    """A wait for a list, and the actions that were performed."""

    def __init__(self) -> None:
        self.time = ManualClock()
        self.done: list[str] = []
        self.steps: deque[Callable[[], None]] = deque()
        self.queue = FairQueue(self.steps.append)
        self.list = ListWait(services(self.time, limits=Limits(snapshot_wait=WAIT), queue=self.queue))

    def acts(self, name: str) -> bool:
        return self.list.when_known(lambda: self.done.append(name))

    def run_steps(self) -> None:
        while self.steps:
            self.steps.popleft()()


@pytest.fixture
def made() -> Waiting:
    return Waiting()


def test_actions_wait_for_the_list_and_are_performed_in_order(made: Waiting) -> None:
    assert made.acts("a")
    assert made.acts("b")
    assert made.done == []
    made.list.note_list([])
    assert made.acts("c")
    assert made.done == ["a", "b", "c"]


def test_actions_wait_for_the_answer_about_each_session_that_the_list_lacks(made: Waiting) -> None:
    made.acts("a")
    made.list.note_list([lambda: None] * 2)
    made.list.note_answer()
    assert made.done == []
    made.list.note_answer()
    assert made.done == ["a"]


@pytest.mark.parametrize("lists", [1, 2])
def test_a_backend_is_asked_about_a_few_of_the_sessions_at_once_that_its_lists_lack(made: Waiting, lists: int) -> None:
    for _ in range(lists):
        made.list.note_list([partial(made.done.append, str(number)) for number in range(DOUBTS_AT_ONCE + 2)])
        made.run_steps()
    assert len(made.done) == DOUBTS_AT_ONCE
    made.list.note_answer()
    made.run_steps()
    assert made.done[DOUBTS_AT_ONCE:] == [str(0 if lists > 1 else DOUBTS_AT_ONCE)]


@pytest.mark.parametrize("moment", ["listed", "over"])
def test_hundreds_of_actions_are_done_in_steps_and_further_ones_behind_them(made: Waiting, moment: str) -> None:
    names = [str(number) for number in range(200)]

    def act(name: str) -> None:
        made.queue.spend(STEP // 4)
        made.done.append(name)

    for name in names:
        assert made.list.when_known(partial(act, name))
    if moment == "listed":
        made.list.note_list([])
    else:
        made.time.passes(WAIT)
    assert made.list.when_known(partial(act, "last"))
    assert len(made.done) <= 4
    while made.steps:
        before = len(made.done)
        made.steps.popleft()()
        assert len(made.done) - before <= 4
    assert made.done == [*names, "last"]


def test_actions_that_wait_for_a_step_are_dropped_at_the_end(made: Waiting) -> None:
    for name in ("a", "b"):
        made.acts(name)
    made.queue.budget.left = 0
    made.list.note_list([])
    made.list.stop()
    made.run_steps()
    assert made.done == []


def test_actions_wait_for_a_short_time_only(made: Waiting) -> None:
    made.acts("a")
    made.time.passes(WAIT)
    assert (made.done, made.list.is_known) == (["a"], True)


def test_a_lost_connection_makes_actions_wait_again_if_a_list_came_over_it(made: Waiting) -> None:
    made.list.note_list([])
    made.list.note_lost()
    made.acts("a")
    assert made.done == []


def test_a_failed_attempt_to_connect_does_not_make_actions_wait_again(made: Waiting) -> None:
    made.acts("a")
    made.time.passes(WAIT)
    made.list.note_lost()
    made.acts("b")
    assert made.done == ["a", "b"]


def test_sessions_that_a_lost_backend_was_asked_about_are_not_waited_for(made: Waiting) -> None:
    made.list.note_list([lambda: None] * (DOUBTS_AT_ONCE + 1))
    made.list.note_lost()
    made.acts("a")
    made.list.note_list([])
    made.run_steps()
    assert made.done == ["a"]


def test_the_actions_that_wait_are_bounded_and_dropped_at_the_end(made: Waiting) -> None:
    for number in range(asking.HELD_MAX):
        assert made.acts(str(number))
    assert not made.acts("one too many")
    made.list.stop()
    made.time.passes(WAIT)
    assert made.done == []


def test_a_list_waits_longer_than_other_actions_while_a_connection_stands(made: Waiting) -> None:
    made.list.note_connected()
    made.list.when_listed(lambda: made.done.append("list"))
    made.acts("other")
    made.time.passes(WAIT)
    assert made.done == ["other"]
    made.list.note_list([])
    assert made.done == ["other", "list"]


def test_a_list_waits_for_no_backend_that_has_listed_its_sessions_or_has_no_connection(made: Waiting) -> None:
    made.list.when_listed(lambda: made.done.append("unconnected"))
    made.list.note_list([])
    made.list.note_connected()
    made.list.when_listed(lambda: made.done.append("listed"))
    assert made.done == ["unconnected", "listed"]
