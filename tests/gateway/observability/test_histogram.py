"""Durations counted by their size."""

from __future__ import annotations

from dragoman.gateway.observability.histogram import Histogram


def test_a_histogram_value_counts_in_each_bucket_that_it_does_not_exceed() -> None:
    histogram = Histogram((0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 7.0):
        histogram.add_value(value)
    assert histogram.count_up_to() == [2, 3, 4]
    assert (histogram.number, histogram.total) == (4, 7.65)
