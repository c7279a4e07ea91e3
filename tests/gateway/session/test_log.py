"""The log of a session: limited in events and characters, and merged for a client that catches up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapters.meter import STEP
from dragoman.gateway.config.model import Limits
from dragoman.gateway.session import log as log_module
from dragoman.gateway.session.log import (
    EVENT_SIZE,
    Log,
    LogEntry,
    Stream,
    content_of_piece,
    join_pieces,
    stream_of,
    stream_of_all,
    with_content,
)
from dragoman.mappings.canonical import Batch, Event, SessionState
from dragoman.mappings.canonical.events import (
    Heartbeat,
    QuestionAsked,
    ReasoningDelta,
    TextDelta,
    TextDone,
    ToolCallArguments,
    ToolOutputDelta,
)
from dragoman.mappings.canonical.values import Origin

OURS = Origin(link="smooth-1", request="r1")
PIECES = (TextDelta(text="x"), ReasoningDelta(text="x"), ToolCallArguments(json="x"), ToolOutputDelta(text="x"))


def log_of(log_max: int = 100, log_bytes: int = 100) -> Log:
    return Log(SessionState(id="s"), Limits(log_max=log_max, log_bytes=log_bytes))


def append(log: Log, *events: Event, turn: str = "t1", in_turn: int = 0) -> Batch:
    return log.append([*events], turn, OURS, 7, 1, in_turn)


def numbers(log: Log, cursor: int = 0, limit: int = 100) -> list[tuple[int, int]]:
    return [(batch.first_seq, len(batch.events)) for batch, _after in log.batches_from(cursor, limit)]


def test_batches_are_numbered_consecutively() -> None:
    log = log_of()
    first, second = append(log, TextDelta(text="a"), TextDelta(text="b")), append(log, TextDelta(text="c"))
    assert second.first_seq == first.first_seq + 2


def test_the_oldest_batches_beyond_a_bound_are_dropped() -> None:
    for log in (log_of(log_max=2), log_of(log_bytes=2)):
        cursor = append(log, QuestionAsked(text="a")).first_seq
        append(log, QuestionAsked(text="b"))
        assert log.reaches(cursor)
        append(log, QuestionAsked(text="c"))
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
    append(log, TextDelta(text="abc"), in_turn=3)
    log.end_turn()
    append(log, TextDelta(text="ab"), in_turn=2)
    assert log.turn_weight == 2


def test_memory_growth_is_reported_once_for_each_step() -> None:
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
        append(log, QuestionAsked(text="a"))
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
    for batch, _after in log.batches_from(0, 100):
        seen.append(batch.turn)
        log.drop_half()
    assert seen == [*"abcdef"]


# -- merged ----------------------------------------------------------------------------------------------

TEXT = st.builds(TextDelta, text=st.text("abc", max_size=3))
EVENTS = st.one_of(
    TEXT,
    st.builds(ReasoningDelta, text=st.text("abc", max_size=3)),
    st.builds(ToolCallArguments, json=st.text("12", max_size=3), call=st.sampled_from("ab"), done=st.booleans()),
    st.builds(ToolOutputDelta, text=st.text("xy", max_size=3), call=st.sampled_from("ab")),
    st.builds(QuestionAsked, text=st.just("?")),
    st.just(Heartbeat()),
)
BATCHES = st.lists(EVENTS, min_size=1, max_size=4) | st.lists(TEXT, min_size=4, max_size=8)  # the latter are merged
STEPS = st.lists(st.tuples(BATCHES, st.sampled_from(["t1", "t2"])), max_size=40)


Told = tuple[str, Stream | Event, str]
"""A turn, the stream of a piece with its content, or an event that is no piece."""


def told(log: Log, cursor: int, limit: int = 1 << 20) -> list[Told]:
    """Return everything from the cursor on; adjacent pieces of one stream and turn are joined."""
    result: list[Told] = []
    while batches := list(log.batches_from(cursor, limit)):
        for batch, after in batches:
            assert batch.first_seq == cursor
            cursor = after
            for event in batch.events:
                stream = stream_of(event)
                if stream is None:
                    result.append((batch.turn, event, ""))
                elif result and result[-1][:2] == (batch.turn, stream):
                    result[-1] = batch.turn, stream, result[-1][2] + content_of_piece(event)
                else:
                    result.append((batch.turn, stream, content_of_piece(event)))
    return result


@given(steps=STEPS, log_max=st.integers(2, 40), limit=st.integers(1, 20))
def test_every_suffix_of_a_merged_log_says_what_the_whole_log_sends(
    steps: list[tuple[list[Event], str]], log_max: int, limit: int
) -> None:
    merged, whole = log_of(log_max=log_max, log_bytes=1 << 20), log_of(log_max=1 << 20, log_bytes=1 << 20)
    for events, turn in steps:
        append(merged, *events, turn=turn)
        append(whole, *events, turn=turn)
    for cursor in range(sum(len(events) for events, _turn in steps)):
        if merged.reaches(cursor):
            assert told(merged, cursor, limit) == told(whole, cursor)


@pytest.mark.parametrize("piece", PIECES)
def test_pieces_of_one_stream_are_never_dropped_for_their_number(piece: Event) -> None:
    log = log_of(log_max=100, log_bytes=1 << 20)
    for _ in range(2_000):
        append(log, piece)
    assert log.reaches(0)
    assert told(log, 0) == [("t1", stream_of(piece), "x" * 2_000)]


@pytest.mark.parametrize("piece", PIECES)
def test_a_cursor_inside_a_merged_run_leads_to_exactly_the_rest_of_its_text(piece: Event) -> None:
    log = log_of(log_max=40, log_bytes=1 << 20)
    texts = [f"{number} " for number in range(300)]
    for text in texts:
        append(log, with_content(piece, text))
    ((_, kept),) = numbers(log, limit=len(texts))
    assert kept < len(texts) // 2, "most pieces are merged"
    for cursor in range(len(texts)):
        assert told(log, cursor) == [("t1", stream_of(piece), "".join(texts[cursor:]))]


def test_a_slice_looks_at_no_more_of_a_long_log_than_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(log_max=100_000, log_bytes=1 << 20)
    for number in range(50_000):
        append(log, TextDelta(text="x"), turn=str(number))
    looks: list[LogEntry] = []
    read = log_module._seq_after

    def look(logged: LogEntry) -> int:
        looks.append(logged)
        return read(logged)

    monkeypatch.setattr(log_module, "_seq_after", look)
    assert len(numbers(log, cursor=40_000, limit=100)) == 100
    assert len(looks) < 100 + 2 * 20


def test_merged_text_costs_no_event_for_each_delta() -> None:
    log = log_of(log_max=100, log_bytes=1 << 20)
    for _ in range(2_000):
        append(log, TextDelta(text="x"))
    assert log.size < 2_000 * EVENT_SIZE // 10


@pytest.mark.parametrize(
    ("pieces", "joined"),
    [
        ([TextDelta(text="a"), TextDelta(text="b")], TextDelta(text="ab")),
        ([ReasoningDelta(text="a"), ReasoningDelta(text="b")], ReasoningDelta(text="ab")),
        (
            [ToolCallArguments(call="c", name="n", json='{"a'), ToolCallArguments(call="c", name="n", json='":1}')],
            ToolCallArguments(call="c", name="n", json='{"a":1}'),
        ),
        (
            [ToolOutputDelta(call="c", text="a"), ToolOutputDelta(call="c", text="b")],
            ToolOutputDelta(call="c", text="ab"),
        ),
    ],
)
def test_adjacent_pieces_of_one_stream_are_joined(pieces: list[Event], joined: Event) -> None:
    assert join_pieces(pieces) == [joined]
    assert stream_of_all(pieces) is not None


@pytest.mark.parametrize(
    "events",
    [
        [TextDelta(text="a"), ReasoningDelta(text="b"), TextDelta(text="c")],
        [ToolOutputDelta(call="c", text="a"), ToolOutputDelta(call="d", text="b")],
        [ToolCallArguments(call="c", json="{"), ToolCallArguments(call="c", json="{}", done=True)],
        [TextDelta(text="a"), TextDone(text="a"), TextDelta(text="b")],
    ],
)
def test_events_of_different_streams_stay_as_they_are(events: list[Event]) -> None:
    assert join_pieces(events) == events
    assert stream_of_all(events) is None
