"""Pass a peer's frames from its transport to the sink, in the call that read them.

A future and a task that wakes for each read cost more than a token does (docs/performance.md, "A lone token (G8, G9,
G21, G22)"). So a transport pushes its frames to the sink at once, and the sink returns how many it took. The frames
that it left wait here and the transport pauses reading, which puts back-pressure on the peer. `resume` continues.
Frames that arrive before a sink is set wait in the same place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dragoman.adapters.base import Sink, TransportLimits
from dragoman.adapters.lines import LINES_AT_ONCE, LineSplitter
from dragoman.adapters.meter import Meter
from dragoman.mappings.dialect import Frame, Parts

FRAME_OVERHEAD = 64  # bytes of an object beside its content, so that a flood of tiny frames is counted as its memory
SLICE = 1024  # waiting frames that a sink is shown at once: they are copied, and the sink may take only a few


def drop_all(frames: Sequence[Frame]) -> int:
    """Take all frames and do nothing: the sink of a transport that is about to close."""
    return len(frames)


class Inbound:
    """The receiving half of a transport: the sink, and the frames that the sink has not taken yet.

    Its transport calls `push` and `end`, and defines `_control_reading`. `full` is True while it should not read: the
    sink left frames, or more than `high` bytes wait for a sink. `meter` counts the waiting frames.
    """

    __slots__ = ("_ended", "_frames", "_gives", "_high", "_over", "_sink", "full", "meter", "size")

    def __init__(self, high: int, meter: Meter | None = None) -> None:
        self.meter = meter or Meter()
        self.size = 0
        """Memory of the waiting frames, in bytes."""
        self.full = False
        self._high = high
        self._sink: Sink | None = None
        self._frames: list[Frame] = []
        self._gives = False  # `resume` pushes frames
        self._ended = False  # no further frames come
        self._over: asyncio.Future[None] | None = None  # done once every frame was taken after the end

    async def run(self, sink: Sink) -> None:
        try:
            await self.attach_sink(sink)
        finally:
            self.detach_sink()

    def attach_sink(self, sink: Sink) -> asyncio.Future[None]:
        """Push frames to `sink` from now on, beginning with those that wait.

        The future is done after `end` was called and every frame was taken. It raises the sink's exception.
        """
        self._over = asyncio.get_running_loop().create_future()
        if self._sink is not drop_all:
            self._sink = sink
        if self._frames or self.full or self._ended:  # most links begin with nothing
            self.resume()
        return self._over

    def detach_sink(self) -> None:
        """Remove the sink. Frames that arrive from now on wait for the next one."""
        if self._sink is not drop_all:
            self._sink = None

    def push(self, frames: Sequence[Frame]) -> None:
        """Push frames to the sink and keep those that it leaves."""
        sink = self._sink
        if sink is None or self.full or self._gives:
            self._keep(frames)
            return
        try:
            taken = sink(frames)
        except Exception as error:  # noqa: BLE001  # `run` of the transport raises it: an event loop would only log it
            self._fail(error)
            return
        if taken < len(frames):
            self._keep(frames[taken:])

    def end(self) -> None:
        """Mark the end of the stream, after which `push` is not called."""
        self._ended = True
        if not (self.size or self.full):
            self._continue()

    def resume(self) -> None:
        """Push the waiting frames to the sink, and continue reading if it takes all of them."""
        if self._sink is None or self._gives:
            return
        self._gives = True
        try:
            all_taken = self._give(self._sink)
        except Exception as error:  # noqa: BLE001  # as in `push`
            self._fail(error)
            return
        finally:
            self._gives = False
        if all_taken:
            self._continue()
        else:
            self._stop_reading()

    def discard(self) -> None:
        """Drop the waiting frames, and those that still arrive."""
        self._sink = drop_all
        if self.size:
            self._frames = []  # not cleared: `_give` sees by the other list that the frames which it shows are dropped
            self._count(-self.size)
        self._continue()

    # --------------------------------------------------------------------------------------------------

    def _control_reading(self) -> None:
        """Stop reading if `full`, else continue. A transport that is not read from a connection does nothing."""

    def _give(self, sink: Sink) -> bool:
        """Push the waiting frames in slices; return True if the sink took all of them."""
        while True:
            while frames := self._frames:
                part = frames[:SLICE]
                taken = sink(part)
                if frames is self._frames:
                    del frames[:taken]
                    self._count(-memory_of_all(part[:taken]))
                    if taken < len(part):
                        return False
            further = self._read_further()
            if further is None:
                return True
            if not further:
                sink(())
                return False
            self._keep(further)

    def _read_further(self) -> Sequence[Frame] | None:
        """Return further frames of what was read already, or None at its end.

        No frames mean that it took work to find none. The sink is shown that, and calls `resume` in its turn.
        """
        return None

    def _keep(self, frames: Sequence[Frame]) -> None:
        size = memory_of_all(frames)
        self._frames += frames
        self.size += size
        if self._sink is not None or self.size > self._high:
            self._stop_reading()
        self.meter.add(size)

    def _count(self, size: int) -> None:
        self.size += size
        self.meter.add(size)

    def _stop_reading(self) -> None:
        if not self.full:
            self.full = True
            if not self._ended:
                self._control_reading()

    def _continue(self) -> None:
        """Read on, or finish after the end: every frame was taken."""
        if not self._ended:
            if self.full:
                self.full = False
                self._control_reading()
        elif self._over is not None and not self._over.done():
            self._over.set_result(None)

    def _fail(self, error: Exception) -> None:
        self._sink = None
        if self._over is not None and not self._over.done():
            self._over.set_exception(error)


class LineInbound(Inbound):
    """The receiving half of a transport of lines. Data that is not split yet waits like frames."""

    __slots__ = ("_splitter",)

    def __init__(self, limits: TransportLimits) -> None:
        super().__init__(limits.receive_high)
        self._splitter = LineSplitter(limits.max_message, self.meter, LINES_AT_ONCE)

    def data_received(self, data: bytes) -> None:
        """Push the lines that this data completes."""
        if self._sink is drop_all:
            return
        frames = self._splitter.feed(data)
        if frames:
            self.push(frames)
        if self._splitter.unsplit and not self.full:
            self._stop_reading()
            self.resume()

    def end(self) -> None:
        if not self._ended:
            LineInbound.data_received(self, b"\n")  # an unterminated last line counts; no subclass has received it
            super().end()

    def discard(self) -> None:
        self._splitter.clear()
        super().discard()

    def _read_further(self) -> Sequence[Frame] | None:
        return self._splitter.more() if self._splitter.unsplit else None


def memory(frame: Frame) -> int:
    """Return the memory (bytes) that a waiting frame counts as."""
    if isinstance(frame, bytes):
        return len(frame) + FRAME_OVERHEAD
    if isinstance(frame, Parts):
        return sum(map(len, frame.parts)) + FRAME_OVERHEAD * (1 + len(frame.parts))
    return FRAME_OVERHEAD


def memory_of_all(frames: Sequence[Frame]) -> int:
    """Return the memory (bytes) of waiting frames. Lines need no call for each: 16,000 of them may end with a link."""
    if {bytes}.issuperset(map(type, frames)):
        return sum(map(len, frames)) + FRAME_OVERHEAD * len(frames)  # type: ignore[arg-type]  # all are bytes
    return sum(map(memory, frames))
