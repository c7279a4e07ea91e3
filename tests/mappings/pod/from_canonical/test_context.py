"""The context of the rules toward pod: counters that continue, and losses."""

from __future__ import annotations

from dragoman.mappings.pod.from_canonical.context import Context, Counter
from dragoman.mappings.pod.from_canonical.events import FROM_EVENT


def test_a_counter_continues_after_the_last_index_received() -> None:
    counter = Counter()
    assert [counter.begin(None), counter.begin(7), counter.begin(None)] == [0, 7, 8]


def test_an_end_without_an_index_has_the_index_of_the_last_begin() -> None:
    counter = Counter()
    assert counter.current(None) == 0
    counter.begin(4)
    assert counter.current(None) == 4


def test_a_loss_is_counted_under_the_type_of_its_source() -> None:
    context = Context(FROM_EVENT)
    context.lose(Counter(), "last", "why")
    (loss,) = context.take_losses()
    assert (loss.kind, loss.field, loss.why) == ("Counter", "last", "why")
