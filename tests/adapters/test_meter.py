"""A meter counts exactly, and reports whole steps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapters.meter import STEP, Meter


def watched() -> tuple[Meter, list[int]]:
    meter = Meter()
    reports: list[int] = []
    meter.watch(reports.append)
    return meter, reports


def test_changes_within_one_step_are_not_reported() -> None:
    meter, reports = watched()
    for _ in range(100):
        meter.add(STEP - 1)
        meter.add(1 - STEP)
    assert reports == []


def test_each_step_is_reported_when_it_begins() -> None:
    meter, reports = watched()
    meter.add(STEP)
    meter.add(3 * STEP)
    assert (reports, meter.counted) == ([STEP, 3 * STEP], 5 * STEP)


@given(st.lists(st.integers(0, 10 * STEP)))
def test_the_reports_add_up_to_the_size_rounded_up_and_back_to_one_step(sizes: list[int]) -> None:
    meter, reports = watched()
    for size in sizes:
        meter.add(size)
        assert meter.size < STEP + sum(reports) <= meter.size + STEP
    for size in sizes:
        meter.add(-size)
    assert (meter.size, sum(reports)) == (0, 0)


def test_a_meter_that_nobody_watches_reports_nothing() -> None:
    meter, reports = watched()
    meter.watch()
    meter.add(5 * STEP)
    assert reports == []
