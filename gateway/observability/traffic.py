"""Count the frames, bytes and translation time of all links of one dialect and role."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Literal, TypeVar

from msgspec import Struct, field

from dragoman.adapters.base import Sink
from dragoman.adapters.inbound import memory
from dragoman.mappings.dialect import DeltaType, Frame, Step, TextReader, TextSink, TextWriter, Translator

Role = Literal["client", "backend"]
Given = TypeVar("Given")
Result = TypeVar("Result")
Received = TypeVar("Received")

# Seconds: a token takes 20 us, a step of the event loop 10 ms.
BOUNDS = (0.00001, 0.00002, 0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 1.0)

TEXTS_TIMED = 16
"""The number of pieces of streamed text of which the gateway times one; the time of this one counts for all of them.

Timing each piece would take a tenth of the CPU of a lone token.
"""


class Histogram:
    """Counts of values by `bounds`, which ascend. One thread adds values and others only read, so no lock is needed."""

    __slots__ = ("_counts", "bounds", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        """The sum of all values."""

    def add_value(self, value: float, number: int = 1) -> None:
        """Count a value `number` times."""
        self._counts[bisect_left(self.bounds, value)] += number
        self.total += value * number

    @property
    def number(self) -> int:
        return sum(self._counts)

    def count_up_to(self) -> list[int]:
        """Return the number of values that are at most as large as each bound, then the number of all values."""
        return list(accumulate(self._counts))


class Traffic(Struct, kw_only=True):
    """Totals since the start: `received` from the peers and `sent` to them. Only counted with an ops port."""

    frames_received: int = 0
    bytes_received: int = 0
    frames_sent: int = 0
    bytes_sent: int = 0
    read_seconds: Histogram = field(default_factory=lambda: Histogram(BOUNDS))
    """The time to decode and translate each read, which has one frame or several."""
    render_seconds: Histogram = field(default_factory=lambda: Histogram(BOUNDS))
    """The time to render and encode each batch for clients."""
    texts_read: int = 0
    """Pieces of streamed text that were read since the last one that was timed."""
    texts_written: int = 0
    """Pieces of streamed text that were rendered since the last one that was timed."""

    def add_sent(self, frames: Sequence[bytes]) -> None:
        self.frames_sent += len(frames)
        self.bytes_sent += len(frames[0]) if len(frames) == 1 else sum(map(len, frames))


def counted_sink(sink: Sink, traffic: Traffic | None) -> Sink:
    """Wrap a sink, and count the frames that it takes; without `traffic` return the sink itself."""

    def count(frames: Sequence[Frame]) -> int:
        taken = sink(frames)
        counted.frames_received += taken
        if taken == len(frames) == 1 and type(frame := frames[0]) is bytes:
            counted.bytes_received += len(frame)
        else:
            counted.bytes_received += size_of_frames(frames[:taken])
        return taken

    if traffic is None:
        return sink
    counted = traffic
    return count


def timed(function: Callable[[Given], Result], times: Histogram) -> Callable[[Given], Result]:
    clock, add_value = time.perf_counter, times.add_value

    def measured(given: Given) -> Result:
        start = clock()
        result = function(given)
        add_value(clock() - start)
        return result

    return measured


def timed_writer(write: TextWriter, traffic: Traffic) -> TextWriter:
    """Return a writer of further text that counts how many seconds each TEXTS_TIMED-th call took."""
    clock, times = time.perf_counter, traffic.render_seconds

    def measured(text: str, at: int) -> list[bytes]:
        traffic.texts_written += 1
        if traffic.texts_written < TEXTS_TIMED:
            return write(text, at)
        start = clock()
        frames = write(text, at)
        times.add_value(clock() - start, traffic.texts_written)
        traffic.texts_written = 0
        return frames

    return measured


def timed_reader(read: TextReader, traffic: Traffic) -> TextReader:
    """Return a reader of further text that counts how many seconds each TEXTS_TIMED-th piece that was taken took."""
    clock, times = time.perf_counter, traffic.read_seconds

    def measured(frame: Frame, add_text: TextSink) -> bool:
        if traffic.texts_read + 1 < TEXTS_TIMED:
            taken = read(frame, add_text)
            if taken:
                traffic.texts_read += 1
            return taken
        start = clock()

        def timed_sink(text: str, at: int, session: str) -> bool:
            end = clock()
            taken = add_text(text, at, session)
            if taken:
                times.add_value(end - start, traffic.texts_read + 1)
                traffic.texts_read = 0
            return taken

        return read(frame, timed_sink)

    return measured


def timed_reading(
    translator: Translator[Received, Any], traffic: Traffic | None
) -> tuple[Callable[[Sequence[Frame]], Step[Received]], Callable[[DeltaType], TextReader | None]]:
    """Return `receive` and `text_reader` of a translator; with `traffic` their work on frames is timed."""
    if traffic is None:
        return translator.receive, translator.text_reader
    counted = traffic

    def text_reader(delta: DeltaType) -> TextReader | None:
        read = translator.text_reader(delta)
        return timed_reader(read, counted) if read is not None else None

    return timed(translator.receive, counted.read_seconds), text_reader


def size_of_frames(frames: Sequence[Frame]) -> int:
    """Return the bytes of these frames, with all parts of a ZeroMQ message."""
    return sum(len(frame) if type(frame) is bytes else memory(frame) for frame in frames)
