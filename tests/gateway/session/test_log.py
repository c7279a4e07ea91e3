"""The log of a session: bounded by events and characters, and joined for a client that catches up."""

from __future__ import annotations

from dragoman.adapters.meter import STEP
from dragoman.gateway.config.model import Limits
from dragoman.gateway.session.log import EVENT_SIZE, Log
from dragoman.mappings.canonical import Batch, Event, SessionState
from dragoman.mappings.canonical.events import QuestionAsked, TextDelta
from dragoman.mappings.canonical.values import Origin

OURS = Origin(link="smooth-1", request="r1")


def log_of(log_max: int = 100, log_bytes: int = 100) -> Log:
    return Log(SessionState(id="s"), Limits(log_max=log_max, log_bytes=log_bytes))


def append(log: Log, *events: Event, turn: str = "t1", weight: int = 1) -> Batch:
    return log.append([*events], turn, OURS, 7, weight)


def numbers(log: Log, cursor: int = 0, limit: int = 100) -> list[tuple[int, int]]:
    return [(batch.first_seq, len(batch.events)) for batch in log.batches_from(cursor, limit)]


def test_batches_are_numbered_consecutively() -> None:
    log = log_of()
    first, second = append(log, TextDelta(text="a"), TextDelta(text="b")), append(log, TextDelta(text="c"))
    assert second.first_seq == first.first_seq + 2


def test_the_oldest_batches_beyond_a_bound_are_dropped() -> None:
    for log in (log_of(log_max=2), log_of(log_bytes=2)):
        cursor = append(log, TextDelta(text="a")).first_seq
        append(log, TextDelta(text="b"))
        assert log.reaches(cursor)
        append(log, TextDelta(text="c"))
        assert not log.reaches(cursor)
        assert log.reaches(cursor + 1)


def test_adjacent_batches_of_one_turn_are_joined() -> None:
    log = log_of()
    start = append(log, TextDelta(text="a")).first_seq
    append(log, TextDelta(text="b"))
    append(log, TextDelta(text="c"), turn="t2")
    assert numbers(log) == [(start, 2), (start + 2, 1)]


def test_a_question_ends_its_batch() -> None:
    log = log_of()
    start = append(log, QuestionAsked(text="?")).first_seq
    append(log, TextDelta(text="a"))
    assert numbers(log) == [(start, 1), (start + 1, 1)]


def test_a_slice_of_the_log_begins_at_the_cursor_and_is_bounded() -> None:
    log = log_of()
    start = append(log, TextDelta(text="a"), turn="t1").first_seq
    append(log, TextDelta(text="b"), turn="t2")
    append(log, TextDelta(text="c"), turn="t3")
    assert numbers(log, cursor=start + 1, limit=1) == [(start + 1, 1)]


def test_the_weight_of_a_turn_counts_from_the_end_of_the_turn_before() -> None:
    log = log_of()
    append(log, TextDelta(text="abc"), weight=3)
    log.end_turn()
    append(log, TextDelta(text="ab"), weight=2)
    assert log.turn_weight == 2


def test_growth_is_told_once_for_each_step_and_not_for_each_event() -> None:
    log = log_of(log_max=100_000, log_bytes=100_000)
    told: list[int] = []
    log.watch(lambda: told.append(log.size))
    each = EVENT_SIZE + 1
    for _ in range(10 * STEP // each):
        append(log, TextDelta(text="a"))
    assert 8 <= len(told) <= 10
    assert STEP <= told[0] < STEP + each


def test_half_of_a_log_is_dropped_from_its_beginning_and_the_newest_batch_stays() -> None:
    log = log_of()
    for _ in range(10):
        append(log, TextDelta(text="a"))
    log.drop_half()
    assert (log.reaches(4), log.reaches(5)) == (False, True)
    for _ in range(10):
        log.drop_half()
    assert log.reaches(9)


def test_a_log_may_be_shortened_while_it_is_delivered() -> None:
    log = log_of()
    for turn in "abcdef":
        append(log, TextDelta(text="a"), turn=turn)
    seen = []
    for batch in log.batches_from(0, 100):
        seen.append(batch.turn)
        log.drop_half()
    assert seen == [*"abcdef"]
