"""The way of a peer's frames from its transport to the sink: pushed in the call that read them.

A future and a task that wakes for each read cost more than a token does (docs/performance.md, "A prototype of the way
of a token"). So a transport hands its frames to the sink at once. The sink answers how many it took. What it left waits
here and the transport pauses reading, so that the peer feels the pressure; `resume` goes on. Frames that arrive before
there is a sink wait in the same place.

    Inbound   for transports that are called when data arrived: push, then end
    Pulled    for transports that read in a task of their own
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dragoman.adapters.base import Sink
from dragoman.mappings.dialect import Frame, Parts

__all__ = ["Inbound", "Pulled", "memory"]

FRAME_OVERHEAD = 64  # bytes that an object costs beside its content: a flood of tiny frames counts as its memory


class Inbound:
    """The frames of one transport that its sink has not taken yet, and the sink.

    `pause` and `resume` stop and start the reading of the transport: the first is called when the sink left something,
    or when more than `high` bytes wait for a sink; the second when everything was taken after that.
    """

    __slots__ = ("_ended", "_frames", "_high", "_over", "_pause", "_paused", "_resume", "_sink", "size")

    def __init__(self, high: int, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self.size = 0
        """Memory of the frames that wait, in bytes."""
        self._high = high
        self._pause = pause
        self._resume = resume
        self._sink: Sink | None = None
        self._frames: Sequence[Frame] = ()
        self._paused = False
        self._ended = False
        self._over: asyncio.Future[None] | None = None

    @property
    def empty(self) -> bool:
        """Whether no frame waits."""
        return not self._frames

    @property
    def full(self) -> bool:
        """Whether the transport should read no more."""
        return self._paused

    def push(self, frames: Sequence[Frame]) -> None:
        """Give frames to the sink; what it leaves waits."""
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
        """Nothing more will be pushed."""
        self._ended = True
        if not self._frames:
            self._finish()

    @contextmanager
    def feeding(self, sink: Sink) -> Iterator[asyncio.Future[None]]:
        """Give frames to `sink` inside of the block, beginning with those that wait.

        The future is done once the end was told and everything was taken; it raises what the sink raised.
        """
        self._sink = sink
        self._over = asyncio.get_running_loop().create_future()
        try:
            self.resume()
            yield self._over
        finally:
            self._sink = None

    def resume(self) -> None:
        """Give the sink what waits, and read on once it took all of it."""
        if self._frames:
            frames, self._frames, self.size = self._frames, (), 0
            self.push(frames)
        if self._frames or self._sink is None:
            return
        if self._paused:
            self._paused = False
            self._resume()
        if self._ended:
            self._finish()

    # --------------------------------------------------------------------------------------------------

    def _keep(self, frames: Sequence[Frame]) -> None:
        self._frames = [*self._frames, *frames]
        self.size += sum(map(memory, frames))
        if not self._paused and (self._sink is not None or self.size > self._high):
            self._paused = True
            self._pause()

    def _fail(self, error: Exception) -> None:
        self._sink = None
        if self._over is not None and not self._over.done():
            self._over.set_exception(error)

    def _finish(self) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(None)


class Pulled:
    """Gives frames to a sink for a task that reads them itself, and waits while the sink takes no more."""

    __slots__ = ("_more",)

    def __init__(self) -> None:
        self._more = asyncio.Event()

    async def give(self, sink: Sink, frames: Sequence[Frame]) -> None:
        """Return once the sink has taken all frames."""
        while frames and (taken := sink(frames)) < len(frames):
            frames = frames[taken:]
            self._more.clear()
            await self._more.wait()

    def resume(self) -> None:
        """Offer the rest to the sink again."""
        self._more.set()


def memory(frame: Frame) -> int:
    """Return the memory (bytes) that a waiting frame is counted with."""
    if isinstance(frame, bytes):
        return len(frame) + FRAME_OVERHEAD
    if isinstance(frame, Parts):
        return sum(map(len, frame.parts)) + FRAME_OVERHEAD * (1 + len(frame.parts))
    return FRAME_OVERHEAD
