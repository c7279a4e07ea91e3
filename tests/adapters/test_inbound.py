"""The path of frames to a sink: pushed at once, kept and paused when the sink takes no more, never lost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dragoman.adapters.base import TransportLimits
from dragoman.adapters.inbound import FRAME_OVERHEAD, SLICE, Inbound, LineInbound, memory, memory_of_all
from dragoman.adapters.lines import LineSplitter
from dragoman.mappings.dialect import Frame, Oversize, Parts


class ToldInbound(Inbound):
    """The receiving half of a transport that notes when it was told to pause or to resume reading."""

    def __init__(self, high: int) -> None:
        super().__init__(high)
        self.told: list[str] = []

    def _control_reading(self) -> None:
        self.told.append("pause" if self.full else "resume")


class ToldLines(LineInbound):
    """The receiving half of a transport of lines that notes the same, and splits at most two lines at a time."""

    def __init__(self) -> None:
        super().__init__(TransportLimits(max_message=100, receive_high=1_000))
        self.splitter = self._splitter = LineSplitter(100, self.meter, lines_at_once=2)
        self.told: list[str] = []

    def _control_reading(self) -> None:
        self.told.append("pause" if self.full else "resume")


class Taker:
    """A sink that takes `room` frames in total; `inbound` feeds it."""

    def __init__(self, room: int = 1_000, high: int = 1_000) -> None:
        self.room = room
        self.taken: list[Frame] = []
        self.inbound = ToldInbound(high)

    def __call__(self, frames: Sequence[Frame]) -> int:
        taken = frames[: self.room]
        self.room -= len(taken)
        self.taken += taken
        return len(taken)


async def test_a_frame_reaches_the_sink_in_the_call_that_pushed_it() -> None:
    sink = Taker()
    _ = sink.inbound.attach_sink(sink)
    sink.inbound.push([b"one", b"two"])
    assert (sink.taken, sink.inbound.told) == ([b"one", b"two"], [])


async def test_frames_that_come_before_the_sink_are_given_first() -> None:
    sink = Taker()
    sink.inbound.push([b"one"])
    sink.inbound.push([b"two"])
    _ = sink.inbound.attach_sink(sink)
    sink.inbound.push([b"three"])
    assert sink.taken == [b"one", b"two", b"three"]


async def test_reading_pauses_above_the_mark_and_resumes_once_the_sink_took_the_frames() -> None:
    sink = Taker(high=3 * (1 + FRAME_OVERHEAD))
    sink.inbound.push([b"1", b"2", b"3"])
    assert sink.inbound.told == []
    sink.inbound.push([b"4"])
    assert sink.inbound.told == ["pause"]
    _ = sink.inbound.attach_sink(sink)
    assert (sink.taken, sink.inbound.told) == ([b"1", b"2", b"3", b"4"], ["pause", "resume"])


async def test_frames_that_a_sink_leaves_wait_in_order_and_pause_reading() -> None:
    sink = Taker(room=1)
    _ = sink.inbound.attach_sink(sink)
    sink.inbound.push([b"one", b"two", b"three"])
    sink.inbound.push([b"four"])
    assert (sink.taken, sink.inbound.told, sink.inbound.full) == ([b"one"], ["pause"], True)
    sink.room = 2
    sink.inbound.resume()
    assert (sink.taken, sink.inbound.told) == ([b"one", b"two", b"three"], ["pause"])
    sink.room = 2
    sink.inbound.resume()
    assert (sink.taken, sink.inbound.told) == ([b"one", b"two", b"three", b"four"], ["pause", "resume"])
    assert sink.inbound.size == 0


async def test_the_connection_is_over_once_its_end_was_reported_and_all_frames_were_taken() -> None:
    sink = Taker(room=1)
    over = sink.inbound.attach_sink(sink)
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
    over = sink.inbound.attach_sink(sink)
    await over
    assert sink.taken == [b"one"]


@pytest.mark.parametrize("waits", [False, True], ids=["a new frame", "a frame that waits"])
async def test_an_exception_of_the_sink_reaches_the_waiting_task_and_stops_delivery(waits: bool) -> None:
    calls: list[Sequence[Frame]] = []

    def broken(frames: Sequence[Frame]) -> int:
        calls.append(frames)
        raise ZeroDivisionError

    inbound = Inbound(1_000)
    if waits:
        inbound.push([b"one"])
    over = inbound.attach_sink(broken)
    if not waits:
        inbound.push([b"one"])
    inbound.push([b"two"])
    with pytest.raises(ZeroDivisionError):
        await over
    assert calls == [[b"one"]]


async def test_frames_are_kept_after_the_sink_was_removed() -> None:
    sink = Taker()
    _ = sink.inbound.attach_sink(sink)
    sink.inbound.push([b"one"])
    sink.inbound.detach_sink()
    sink.inbound.push([b"two"])
    assert sink.taken == [b"one"]
    _ = sink.inbound.attach_sink(sink)
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
    _ = sink.inbound.attach_sink(sink)
    sink.inbound.push([b"one", b"two", b"three"])
    assert sink.inbound.meter.size == sink.inbound.size == memory(b"two") + memory(b"three")
    sink.room = 1
    sink.inbound.resume()
    assert sink.inbound.meter.size == memory(b"three")
    sink.inbound.discard()
    assert sink.inbound.meter.size == sink.inbound.size == 0


async def test_waiting_frames_are_shown_in_slices_so_that_taking_few_is_cheap() -> None:
    shown: list[int] = []

    def sink(frames: Sequence[Frame]) -> int:
        shown.append(len(frames))
        return 1

    inbound = Inbound(1_000_000)
    inbound.push([b"x"] * 10 * SLICE)
    _ = inbound.attach_sink(sink)
    for _ in range(5):
        inbound.resume()
    assert shown == [SLICE] * 6
    assert inbound.size == (10 * SLICE - 6) * (1 + FRAME_OVERHEAD)


async def test_the_memory_of_frames_that_a_sink_leaves_is_not_added_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sink, counted = Taker(room=0), list[Frame]()

    def count(frames: Sequence[Frame]) -> int:
        counted.extend(frames)
        return memory_of_all(frames)

    _ = sink.inbound.attach_sink(sink)
    sink.inbound.push([b"%d" % number for number in range(SLICE)])
    monkeypatch.setattr("dragoman.adapters.inbound.memory_of_all", count)
    sink.room = 3
    sink.inbound.resume()
    assert counted == sink.taken == [b"0", b"1", b"2"]


async def test_frames_that_are_dropped_while_a_sink_is_called_are_counted_once() -> None:
    waiting = Inbound(1_000)
    waiting.push([b"one", b"two"])

    def drop(frames: Sequence[Frame]) -> int:
        waiting.discard()
        return len(frames)

    _ = waiting.attach_sink(drop)
    assert waiting.size == waiting.meter.size == 0


async def test_a_sink_that_continues_reading_while_it_is_called_gets_nothing_twice() -> None:
    taken: list[Frame] = []

    def sink(frames: Sequence[Frame]) -> int:
        inbound.resume()
        taken.extend(frames)
        return len(frames)

    inbound = Inbound(1_000_000)
    inbound.push([b"one", b"two"])
    _ = inbound.attach_sink(sink)
    inbound.push([b"three"])
    assert taken == [b"one", b"two", b"three"]


# -- lines -------------------------------------------------------------------------------------------


async def test_lines_are_split_as_they_are_taken() -> None:
    sink, lines = Taker(room=3), ToldLines()
    over = lines.attach_sink(sink)
    lines.data_received(b"1\n2\n3\n4\n5\n6\n7")
    assert (sink.taken, lines.full) == ([b"1", b"2", b"3"], True)
    assert sum(map(len, lines.splitter.unsplit)) == len(b"5\n6\n7"), "the rest is not split yet"
    lines.end()
    sink.room = 100
    lines.resume()
    await over
    assert sink.taken == [b"1", b"2", b"3", b"4", b"5", b"6", b"7"]
    assert lines.told == ["pause"], "there is nothing to read after the end"


async def test_data_that_is_not_split_yet_stops_reading_before_there_is_a_sink() -> None:
    sink, lines = Taker(), ToldLines()
    lines.data_received(b"1\n2\n3\n4\n")
    assert lines.told == ["pause"]
    _ = lines.attach_sink(sink)
    assert (sink.taken, lines.told) == ([b"1", b"2", b"3", b"4"], ["pause", "resume"])


async def test_many_blank_lines_of_unicode_are_split_a_few_in_a_turn() -> None:
    sink, lines = Taker(), ToldLines()
    _ = lines.attach_sink(sink)
    lines.data_received("\u2003\n".encode() * 9 + b"line\n")
    turns = 0
    while not sink.taken:
        assert lines.full
        lines.resume()
        turns += 1
    assert turns > 2
    assert sink.taken == [b"line"]
