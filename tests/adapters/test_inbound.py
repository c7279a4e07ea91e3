"""The path of frames to a sink: pushed at once, kept and paused when the sink takes no more, never lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dragoman.adapters.base import do_nothing
from dragoman.adapters.inbound import FRAME_OVERHEAD, SLICE, Inbound, memory, memory_of_all
from dragoman.adapters.lines import LineSplitter
from dragoman.adapters.meter import Meter
from dragoman.mappings.dialect import Frame, Oversize, Parts


class Taker:
    """A sink that takes `room` frames in total; `inbound` feeds it."""

    def __init__(self, room: int = 1_000, high: int = 1_000) -> None:
        self.room = room
        self.taken: list[Frame] = []
        self.told: list[str] = []
        self.meter = Meter()
        self.inbound = Inbound(high, lambda: self.told.append("pause"), lambda: self.told.append("resume"), self.meter)

    def __call__(self, frames: Sequence[Frame]) -> int:
        taken = frames[: self.room]
        self.room -= len(taken)
        self.taken += taken
        return len(taken)


async def test_a_frame_reaches_the_sink_in_the_call_that_pushed_it() -> None:
    sink = Taker()
    with sink.inbound.feeding(sink):
        sink.inbound.push([b"one", b"two"])
        assert (sink.taken, sink.told) == ([b"one", b"two"], [])


async def test_frames_that_come_before_the_sink_are_given_first() -> None:
    sink = Taker()
    sink.inbound.push([b"one"])
    sink.inbound.push([b"two"])
    with sink.inbound.feeding(sink):
        sink.inbound.push([b"three"])
        assert sink.taken == [b"one", b"two", b"three"]


async def test_reading_pauses_above_the_mark_and_resumes_once_the_sink_took_the_frames() -> None:
    sink = Taker(high=3 * (1 + FRAME_OVERHEAD))
    sink.inbound.push([b"1", b"2", b"3"])
    assert sink.told == []
    sink.inbound.push([b"4"])
    assert sink.told == ["pause"]
    with sink.inbound.feeding(sink):
        assert (sink.taken, sink.told) == ([b"1", b"2", b"3", b"4"], ["pause", "resume"])


async def test_frames_that_a_sink_leaves_wait_in_order_and_pause_reading() -> None:
    sink = Taker(room=1)
    with sink.inbound.feeding(sink):
        sink.inbound.push([b"one", b"two", b"three"])
        sink.inbound.push([b"four"])
        assert (sink.taken, sink.told, sink.inbound.full) == ([b"one"], ["pause"], True)
        sink.room = 2
        sink.inbound.resume()
        assert (sink.taken, sink.told) == ([b"one", b"two", b"three"], ["pause"])
        sink.room = 2
        sink.inbound.resume()
        assert (sink.taken, sink.told) == ([b"one", b"two", b"three", b"four"], ["pause", "resume"])
        assert (sink.inbound.empty, sink.inbound.size) == (True, 0)


async def test_the_connection_is_over_once_its_end_was_reported_and_all_frames_were_taken() -> None:
    sink = Taker(room=1)
    with sink.inbound.feeding(sink) as over:
        sink.inbound.push([b"one", b"two"])
        sink.inbound.end()
        assert not over.done()
        sink.room = 1
        sink.inbound.resume()
        await over
    assert sink.taken == [b"one", b"two"]


async def test_an_end_reported_before_there_is_a_sink_counts() -> None:
    sink = Taker()
    sink.inbound.push([b"one"])
    sink.inbound.end()
    with sink.inbound.feeding(sink) as over:
        await over
    assert sink.taken == [b"one"]


@pytest.mark.parametrize("waits", [False, True], ids=["a new frame", "a frame that waits"])
async def test_an_exception_of_the_sink_reaches_the_waiting_task_and_stops_delivery(waits: bool) -> None:
    calls: list[Sequence[Frame]] = []

    def broken(frames: Sequence[Frame]) -> int:
        calls.append(frames)
        raise ZeroDivisionError

    inbound = Inbound(1_000, lambda: None, lambda: None)
    if waits:
        inbound.push([b"one"])
    with inbound.feeding(broken) as over:
        if not waits:
            inbound.push([b"one"])
        inbound.push([b"two"])
        with pytest.raises(ZeroDivisionError):
            await over
    assert calls == [[b"one"]]


async def test_frames_are_kept_after_the_sink_was_removed() -> None:
    sink = Taker()
    with sink.inbound.feeding(sink):
        sink.inbound.push([b"one"])
    sink.inbound.push([b"two"])
    assert sink.taken == [b"one"]
    with sink.inbound.feeding(sink):
        assert sink.taken == [b"one", b"two"]


@pytest.mark.parametrize(
    ("frame", "bytes_of_it"),
    [
        (b"12345", 5 + FRAME_OVERHEAD),
        (Parts("rpc", b"", (b"12", b"345")), 5 + 3 * FRAME_OVERHEAD),
        (Oversize(size=1_000_000, limit=10), FRAME_OVERHEAD),
    ],
)
def test_small_frames_count_with_the_memory_that_they_take(frame: Frame, bytes_of_it: int) -> None:
    assert memory(frame) == bytes_of_it
    assert memory_of_all([frame, b"1", frame]) == 2 * bytes_of_it + 1 + FRAME_OVERHEAD


def test_the_memory_of_lines_is_added_up_without_a_call_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("dragoman.adapters.inbound.memory")
    assert memory_of_all([b"12"] * 16_000) == 16_000 * (2 + FRAME_OVERHEAD)


async def test_the_meter_counts_frames_that_wait_until_the_sink_takes_them() -> None:
    sink = Taker(room=1)
    with sink.inbound.feeding(sink):
        sink.inbound.push([b"one", b"two", b"three"])
        assert sink.meter.size == sink.inbound.size == memory(b"two") + memory(b"three")
        sink.room = 1
        sink.inbound.resume()
        assert sink.meter.size == memory(b"three")
        sink.inbound.clear()
        assert (sink.meter.size, sink.inbound.empty) == (0, True)


async def test_waiting_frames_are_shown_in_slices_so_that_taking_few_is_cheap() -> None:
    shown: list[int] = []

    def sink(frames: Sequence[Frame]) -> int:
        shown.append(len(frames))
        return 1

    inbound = Inbound(1_000_000, lambda: None, lambda: None)
    inbound.push([b"x"] * 10 * SLICE)
    with inbound.feeding(sink):
        for _ in range(5):
            inbound.resume()
    assert shown == [SLICE] * 6
    assert inbound.size == (10 * SLICE - 6) * (1 + FRAME_OVERHEAD)


async def test_the_memory_of_frames_that_a_sink_leaves_is_not_added_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sink, counted = Taker(room=0), list[Frame]()

    def count(frames: Sequence[Frame]) -> int:
        counted.extend(frames)
        return memory_of_all(frames)

    with sink.inbound.feeding(sink):
        sink.inbound.push([b"%d" % number for number in range(SLICE)])
        monkeypatch.setattr("dragoman.adapters.inbound.memory_of_all", count)
        sink.room = 3
        sink.inbound.resume()
    assert counted == sink.taken == [b"0", b"1", b"2"]


async def test_frames_that_are_dropped_while_a_sink_is_called_are_counted_once() -> None:
    meter = Meter()
    waiting = Inbound(1_000, do_nothing, do_nothing, meter)
    waiting.push([b"one", b"two"])

    def drop(frames: Sequence[Frame]) -> int:
        waiting.clear()
        return len(frames)

    with waiting.feeding(drop):
        assert (waiting.size, meter.size, waiting.empty) == (0, 0, True)


async def test_a_sink_that_continues_reading_while_it_is_called_gets_nothing_twice() -> None:
    taken: list[Frame] = []

    def sink(frames: Sequence[Frame]) -> int:
        inbound.resume()
        taken.extend(frames)
        return len(frames)

    inbound = Inbound(1_000_000, lambda: None, lambda: None)
    inbound.push([b"one", b"two"])
    with inbound.feeding(sink):
        inbound.push([b"three"])
    assert taken == [b"one", b"two", b"three"]


# -- lines -------------------------------------------------------------------------------------------


class LineTaker(Taker):
    """A sink of lines, for which at most two lines are split at a time."""

    def __init__(self, room: int = 1_000) -> None:
        super().__init__(room)
        self.splitter = LineSplitter(100, lines_at_once=2)
        told = self.told
        self.inbound = Inbound(1_000, lambda: told.append("pause"), lambda: told.append("resume"), None, self.splitter)
        self.calls = 0

    def __call__(self, frames: Sequence[Frame]) -> int:
        self.calls += 1
        return super().__call__(frames)

    def arrives(self, data: bytes) -> None:
        frames = self.splitter.feed(data)
        if frames or self.splitter.unsplit:
            self.inbound.push(frames)


async def test_lines_are_split_as_they_are_taken() -> None:
    sink = LineTaker(room=3)
    with sink.inbound.feeding(sink) as over:
        sink.arrives(b"1\n2\n3\n4\n5\n6\n7")
        assert (sink.taken, sink.inbound.full) == ([b"1", b"2", b"3"], True)
        assert sum(map(len, sink.splitter.unsplit)) == len(b"5\n6\n7"), "the rest is not split yet"
        sink.arrives(b"\n")
        sink.inbound.end()
        sink.room = 100
        sink.inbound.resume()
        await over
    assert sink.taken == [b"1", b"2", b"3", b"4", b"5", b"6", b"7"]
    assert sink.told == ["pause"], "there is nothing to read after the end"


async def test_data_that_is_not_split_yet_stops_reading_before_there_is_a_sink() -> None:
    sink = LineTaker()
    sink.arrives(b"1\n2\n3\n4\n")
    assert (sink.told, sink.inbound.empty) == (["pause"], False)
    with sink.inbound.feeding(sink):
        assert (sink.taken, sink.told) == ([b"1", b"2", b"3", b"4"], ["pause", "resume"])


async def test_many_blank_lines_of_unicode_are_split_a_few_in_a_turn() -> None:
    sink = LineTaker()
    with sink.inbound.feeding(sink):
        sink.arrives("\u2003\n".encode() * 7 + b"line\n")
        turns = 0
        while not sink.taken:
            assert sink.inbound.full
            sink.inbound.resume()
            turns += 1
        assert turns > 2
    assert sink.taken == [b"line"]
