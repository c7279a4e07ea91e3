"""The tables of docs/reliability.md: a row for each fault, and slopes with their errors."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.chaos.report import RELIABILITY, fault_titles, replace_section, sessions_report, soak_report
from tests.chaos.sessions import SessionsSample, memory_growth
from tests.chaos.soak import QUANTITIES, SoakResult, slope


def test_the_page_has_a_row_for_each_fault_that_the_proxy_knows() -> None:
    page = RELIABILITY.read_text("utf-8")
    assert [title for title in fault_titles() if f"| {title} |" not in page] == []


def test_the_slope_of_a_straight_line_has_no_error() -> None:
    fitted = slope([(0.0, 10.0), (30.0, 11.0), (60.0, 12.0)])
    assert (fitted.per_minute, fitted.error) == pytest.approx((2.0, 0.0))


def test_the_error_of_a_slope_is_that_of_least_squares() -> None:
    """The values deviate from their line by 0.5, 0.75, 0 and 0.25; the sum of the squares is 0.875."""
    fitted = slope([(0.0, 1.0), (60.0, 0.0), (120.0, 1.0), (180.0, 1.5)])
    assert fitted.per_minute == pytest.approx(0.25)
    assert fitted.error == pytest.approx((0.875 / 2 / 5) ** 0.5)


def test_a_section_is_replaced_between_its_marks_alone() -> None:
    text = "a\n<!-- soak -->\nold\n<!-- /soak -->\nb\n"
    assert replace_section(text, "soak", "new\n") == "a\n<!-- soak -->\nnew\n<!-- /soak -->\nb\n"


def test_a_short_soak_says_that_it_was_short() -> None:
    slopes = {name: slope([(0.0, 1.0), (60.0, 1.0), (120.0, 1.0)]) for name in QUANTITIES}
    result = SoakResult(seconds=60.0, slopes=slopes, turns=Counter(ended=3))
    assert "This was a shorter run." in soak_report(result, seed=1)


def test_the_growth_of_memory_compares_the_last_sample_with_the_first() -> None:
    samples = [SessionsSample(opened=n, memory=n << 20, descriptors=20, cpu=0.004) for n in (40, 60, 50)]
    assert memory_growth(samples) == 1.25
    assert "| 60 | 60.0 | 20 | 4.00 |" in sessions_report(samples)
