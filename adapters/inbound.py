"""Pass a peer's frames from its transport to the sink, in the call that read them.

A future and a task that wakes for each read cost more than a token does (docs/performance.md, "A prototype of the way
of a token"). So a transport pushes its frames to the sink at once, and the sink returns how many it took. The frames
that it left wait here and the transport pauses reading, which puts back-pressure on the peer. `resume` continues.
Frames that arrive before a sink is set wait in the same place.

    Inbound         for transports whose callbacks receive data: push, then end
    PulledInbound   for transports that read in a task of their own
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dragoman.adapters.base import Sink
from dragoman.adapters.meter import Meter
from dragoman.mappings.dialect import Frame, Parts

__all__ = ["Inbound", "PulledInbound", "memory"]

FRAME_OVERHEAD = 64  # bytes of an object beside its content, so that a flood of tiny frames is counted as its memory


class Inbound:
    """The sink of one transport, and the frames that the sink has not taken yet.

    `pause` stops the transport's reading: it is called when the sink left frames, or when more than `high` bytes wait
    for a sink. `resume` restarts it and is called when every frame has been taken. `meter` counts the waiting frames.
    """

    __slots__ = ("_ended", "_frames", "_high", "_meter", "_over", "_pause", "_paused", "_resume", "_sink", "size")

    def __init__(
        self, high: int, pause: Callable[[], None], resume: Callable[[], None], meter: Meter | None = None
    ) -> None:
        self._meter = meter or Meter()
        self.size = 0
        """Memory of the waiting frames, in bytes."""
        self._high = high
        self._pause = pause
        self._resume = resume
        self._sink: Sink | None = None
        self._frames: list[Frame] = []
        self._paused = False
        self._ended = False
        self._over: asyncio.Future[None] | None = None

    @property
    def empty(self) -> bool:
        """True if no frame waits."""
        return not self._frames

    @property
    def full(self) -> bool:
        """True while the transport should not read."""
        return self._paused

    def push(self, frames: Sequence[Frame]) -> None:
        """Push frames to the sink and keep those that it leaves."""
        sink = self._sink
        if sink is None or self._frames:
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
        """Mark the end of the stream; `push` is not called after it."""
        self._ended = True
        if not self._frames:
            self._finish()

    @contextmanager
    def feeding(self, sink: Sink) -> Iterator[asyncio.Future[None]]:
        """Push frames to `sink` inside of the block, beginning with those that wait.

        The future is done after `end` was called and every frame was taken. It raises the sink's exception.
        """
        self._sink = sink
        self._over = asyncio.get_running_loop().create_future()
        try:
            self.resume()
            yield self._over
        finally:
            self._sink = None

    def resume(self) -> None:
        """Push the waiting frames to the sink, and continue reading if it takes all of them."""
        if self._frames:
            frames, size = self._frames, self.size
            self._frames, self.size = [], 0
            self._meter.add(-size)
            self.push(frames)
        if self._frames or self._sink is None:
            return
        if self._paused:
            self._paused = False
            self._resume()
        if self._ended:
            self._finish()

    def clear(self) -> None:
        """Drop the waiting frames: their link is over."""
        size, self._frames, self.size = self.size, [], 0
        if size:
            self._meter.add(-size)

    # --------------------------------------------------------------------------------------------------

    def _keep(self, frames: Sequence[Frame]) -> None:
        size = sum(map(memory, frames))
        self._frames += frames
        self.size += size
        if not self._paused and (self._sink is not None or self.size > self._high):
            self._paused = True
            self._pause()
        self._meter.add(size)

    def _fail(self, error: Exception) -> None:
        self._sink = None
        if self._over is not None and not self._over.done():
            self._over.set_exception(error)

    def _finish(self) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(None)


class PulledInbound:
    """Passes frames to a sink for a task that reads them itself, and waits while the sink takes no more."""

    __slots__ = ("_more",)

    def __init__(self) -> None:
        self._more = asyncio.Event()

    async def give(self, sink: Sink, frames: Sequence[Frame]) -> None:
        """Push frames to the sink and return once it has taken all of them."""
        while frames and (taken := sink(frames)) < len(frames):
            frames = frames[taken:]
            self._more.clear()
            await self._more.wait()

    def resume(self) -> None:
        """Push the remaining frames to the sink again."""
        self._more.set()


def memory(frame: Frame) -> int:
    """Return the memory (bytes) that a waiting frame counts as."""
    if isinstance(frame, bytes):
        return len(frame) + FRAME_OVERHEAD
    if isinstance(frame, Parts):
        return sum(map(len, frame.parts)) + FRAME_OVERHEAD * (1 + len(frame.parts))
    return FRAME_OVERHEAD
