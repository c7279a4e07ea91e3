"""Pass a peer's frames from its transport to the sink, in the call that read them.

A future and a task that wakes for each read cost more than a token does (docs/performance.md, "A lone token (G8, G9,
G21, G22)"). So a transport pushes its frames to the sink at once, and the sink returns how many it took. The frames
that it left wait here and the transport pauses reading, which puts back-pressure on the peer. `resume` continues.
Frames that arrive before a sink is set wait in the same place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from dragoman.adapters.base import Sink, do_nothing
from dragoman.adapters.lines import LineSplitter
from dragoman.adapters.meter import Meter
from dragoman.mappings.dialect import Frame, Parts

FRAME_OVERHEAD = 64  # bytes of an object beside its content, so that a flood of tiny frames is counted as its memory
SLICE = 1024  # waiting frames that a sink is shown at once: they are copied, and the sink may take only a few


class Inbound:
    """The sink of one transport, and the frames that the sink has not taken yet.

    `pause` stops the transport's reading: it is called when the sink left frames, or when more than `high` bytes wait
    for a sink. `resume` restarts it and is called when every frame has been taken. A transport of lines passes its
    splitter: data that is not split yet waits like frames. `meter` counts the waiting frames.
    """

    __slots__ = (
        "_ended",
        "_frames",
        "_gives",
        "_high",
        "_lines",
        "_meter",
        "_over",
        "_pause",
        "_paused",
        "_resume",
        "_sink",
        "size",
    )

    def __init__(
        self,
        high: int,
        pause: Callable[[], None],
        resume: Callable[[], None],
        meter: Meter | None = None,
        lines: LineSplitter | None = None,
    ) -> None:
        self._meter = meter or Meter()
        self.size = 0
        """Memory of the waiting frames, in bytes."""
        self._high = high
        self._pause = pause
        self._resume = resume
        self._lines = lines
        self._sink: Sink | None = None
        self._frames: list[Frame] = []
        self._gives = False  # `resume` pushes frames
        self._paused = False
        self._ended = False
        self._over: asyncio.Future[None] | None = None

    @property
    def empty(self) -> bool:
        """True if no frame waits, and no data that is not split yet."""
        return not self._frames and not self._unsplit

    @property
    def has_sink(self) -> bool:
        """True while a link takes frames."""
        return self._sink is not None

    @property
    def full(self) -> bool:
        """True while the transport should not read."""
        return self._paused

    def push(self, frames: Sequence[Frame]) -> None:
        """Push frames to the sink and keep those that it leaves.

        A transport of lines also pushes no frames, to say that the splitter has unsplit data.
        """
        sink = self._sink
        if sink is None or self._paused or self._gives:
            self._keep(frames)
            return
        try:
            taken = sink(frames)
        except Exception as error:  # noqa: BLE001  # `run` of the transport raises it: an event loop would only log it
            self._fail(error)
            return
        if taken < len(frames) or not frames:
            self._keep(frames[taken:])
        elif self._lines is not None and self._lines.unsplit:
            self.resume()

    def end(self) -> None:
        """Mark the end of the stream, after which `push` is not called.

        `pause` and `resume` are dropped, so that their transport is freed without the garbage collector.
        """
        self._ended = True
        self._pause = self._resume = do_nothing
        if self.empty:
            self._finish()

    def feeding(self, sink: Sink) -> Inbound:
        """Push frames to `sink` inside of a `with` block, beginning with those that wait.

        The block's future is done after `end` was called and every frame was taken. It raises the sink's exception.
        """
        self._sink = sink
        return self

    def __enter__(self) -> asyncio.Future[None]:  # `contextmanager` would take 0.4 KB of an idle connection
        self._over = asyncio.get_running_loop().create_future()
        if self._frames or self._paused or self._ended:  # most links begin with nothing
            self.resume()
        return self._over

    def __exit__(self, *_raised: object) -> None:
        self._sink = None

    def resume(self) -> None:
        """Push the waiting frames to the sink, and continue reading if it takes all of them."""
        if self._sink is None or self._gives:
            return
        self._gives = True
        try:
            taken = self._give(self._sink)
        except Exception as error:  # noqa: BLE001  # as in `push`
            self._fail(error)
            return
        finally:
            self._gives = False
        if not taken:
            self._stop_reading()
            return
        if self._paused:
            self._paused = False
            self._resume()
        if self._ended and self.empty:
            self._finish()

    def clear(self) -> None:
        """Drop the waiting frames: their link is over."""
        size, self.size = self.size, 0
        self._frames = []  # not cleared: `_give` sees by the other list that the frames which it shows are dropped
        if size:
            self._meter.add(-size)

    # --------------------------------------------------------------------------------------------------

    @property
    def _unsplit(self) -> bool:
        return self._lines is not None and bool(self._lines.unsplit)

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
            if self._lines is None or not self._lines.unsplit:
                return True
            lines = self._lines.more()
            if lines:
                self._keep(lines)
            elif self._lines.unsplit:
                sink(())
                return False

    def _keep(self, frames: Sequence[Frame]) -> None:
        size = memory_of_all(frames)
        self._frames += frames
        self.size += size
        if self._sink is not None or self.size > self._high or self._unsplit:
            self._stop_reading()
        self._meter.add(size)

    def _count(self, size: int) -> None:
        self.size += size
        self._meter.add(size)

    def _stop_reading(self) -> None:
        if not self._paused:
            self._paused = True
            self._pause()

    def _fail(self, error: Exception) -> None:
        self._sink = None
        if self._over is not None and not self._over.done():
            self._over.set_exception(error)

    def _finish(self) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(None)


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
