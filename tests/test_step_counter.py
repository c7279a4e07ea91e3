"""The count of steps of a piece of work is the same each time."""

from __future__ import annotations

import gc

from tests.step_counter import count_steps


class Garbage:
    """An object of a reference cycle that takes many steps when it is collected."""

    def __init__(self) -> None:
        self.cycle = self

    def __del__(self) -> None:
        for _ in range(1000):
            pass


def test_steps_of_garbage_that_others_left_are_not_counted() -> None:
    def allocate() -> object:
        return [[number] for number in range(2 * gc.get_threshold()[0])]

    alone = count_steps(allocate)
    gc.collect()
    for _ in range(10):
        Garbage()
    assert count_steps(allocate) == alone
    assert gc.isenabled()
