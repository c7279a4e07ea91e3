"""A read end and a write end as one peer: frames with back-pressure both ways."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from adapters.base import Limits
from adapters.lines import LineSplitter, join
from adapters.stdio.ends import File, ReadEnd, WriteEnd
from mappings.dialect import Frame

__all__ = ["LineStream"]

FRAME_OVERHEAD = 64  # what an object costs beside its bytes: a flood of tiny lines counts as the memory it takes


class LineStream:
    """What a Transport over two ends does until it is closed; how it ends is its subclass's."""

    def __init__(self, source: File, sink: File, limits: Limits, *, patient: bool = False) -> None:
        self._limits = limits
        self._splitter = LineSplitter(limits.max_message)
        self._frames: list[Frame] = []
        self._waiting = 0  # bytes read since the link last asked
        self._readable = asyncio.Event()
        self._discarding = False
        self._in = ReadEnd(source, self._take, self._end)
        self._out = WriteEnd(sink, limits.send_high, patient=patient)
        self._in.resume()

    async def receive(self) -> Sequence[Frame]:
        while not self._frames and not self._in.closed:
            self._readable.clear()
            await self._readable.wait()
        frames, self._frames, self._waiting = self._frames, [], 0
        self._read_on()
        return frames

    async def send(self, frames: Sequence[bytes]) -> None:
        await self._out.kept_up()
        self._out.write(join(frames))
        await self._out.kept_up()

    def offer(self, frames: Sequence[bytes]) -> bool:
        if not self._out.roomy:
            return False
        self._out.write(join(frames))
        return True

    def listens(self) -> bool:
        return not self._out.hung_up

    async def _finish(self) -> None:
        """Write what waits, then end our direction, all within the close deadline; what still comes is thrown away.

        It is read nevertheless: who cannot get rid of his output does not look at his input either.
        """
        self._discarding = True
        self._read_on()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._limits.close_deadline):
                    await self._out.flushed()
        finally:
            self._out.close()

    @property
    def _full(self) -> bool:
        return self._waiting + FRAME_OVERHEAD * len(self._frames) > self._limits.receive_high

    def _read_on(self) -> None:
        self._in.resume()

    def _take(self, data: bytes) -> None:
        if self._discarding:
            return
        self._waiting += len(data)
        frames = self._splitter.feed(data)
        if frames:
            self._frames += frames
            self._readable.set()
            if self._full:
                self._in.pause()

    def _end(self) -> None:
        self._frames += self._splitter.finish()
        self._readable.set()
