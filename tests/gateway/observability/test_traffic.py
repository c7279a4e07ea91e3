"""Totals of the frames that links exchange, and of the times that their translation takes."""

from __future__ import annotations

from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.observability.traffic import (
    TEXTS_TIMED,
    Histogram,
    Traffic,
    size_of_frames,
    timed,
    timed_reader,
    timed_writer,
)
from dragoman.mappings.dialect import Frame, TextSink


def test_links_of_one_dialect_and_role_add_to_the_same_totals() -> None:
    ledger = Ledger()
    assert ledger.traffic_of("pod", "client") is ledger.traffic_of("pod", "client")
    assert ledger.traffic_of("pod", "client") is not ledger.traffic_of("pod", "backend")


def test_a_timed_function_returns_its_result_and_counts_the_time_of_each_call() -> None:
    times = Traffic().read_seconds
    measure = timed(len, times)
    assert [measure("ab"), measure("abc")] == [2, 3]
    assert times.number == 2
    assert times.total > 0


def test_the_size_of_frames_is_that_of_their_bytes() -> None:
    assert size_of_frames([b"abc", b"de"]) == 5


def test_each_sixteenth_piece_of_text_is_timed_and_stands_for_sixteen() -> None:
    traffic = Traffic()

    def read(frame: Frame, add_text: TextSink) -> bool:
        return add_text(frame.decode(), 0, "") if isinstance(frame, bytes) else False

    measure, write = timed_reader(read, traffic), timed_writer(lambda text, _at: [text.encode()], traffic)
    taken: list[str] = []

    def take(text: str, _at: int, _session: str) -> bool:
        taken.append(text)
        return text != "refused"

    numbers = []
    for number in range(2 * TEXTS_TIMED):
        assert measure(b"%d" % number, take)
        assert not measure(b"refused", take), "the general path times it"
        assert write(str(number), 0) == [b"%d" % number]
        numbers.append((traffic.read_seconds.number, traffic.render_seconds.number))
    timed_at_once = [(0, 0)] * (TEXTS_TIMED - 1) + [(TEXTS_TIMED, TEXTS_TIMED)] * TEXTS_TIMED
    assert numbers == [*timed_at_once, (2 * TEXTS_TIMED, 2 * TEXTS_TIMED)]
    assert len(taken) == 4 * TEXTS_TIMED
    assert traffic.read_seconds.total > 0


def test_a_histogram_value_counts_in_each_bucket_that_it_does_not_exceed() -> None:
    histogram = Histogram((0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 7.0):
        histogram.add_value(value)
    assert histogram.count_up_to() == [2, 3, 4]
    assert (histogram.number, histogram.total) == (4, 7.65)
