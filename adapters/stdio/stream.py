"""A read end and a write end as one transport, with back-pressure in both directions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from dragoman.adapters.base import Sink, TransportLimits
from dragoman.adapters.inbound import Inbound
from dragoman.adapters.lines import LINES_AT_ONCE, LineSplitter, join
from dragoman.adapters.meter import Meter
from dragoman.adapters.stdio.ends import File, ReadEnd, WriteEnd


class LineStream:
    """The common part of transports over two ends; each subclass defines `close`."""

    def __init__(self, source: File, sink: File, limits: TransportLimits, *, patient: bool = False) -> None:
        self._limits = limits
        self.meter = Meter()
        self._splitter = LineSplitter(limits.max_message, self.meter, LINES_AT_ONCE)
        self._inbound = Inbound(limits.receive_high, self._pause, self._read_on, self.meter, self._splitter)
        self._discarding = False
        self._in = ReadEnd(source, self._take, self._end)
        self._out = WriteEnd(sink, limits.send_high, self.meter, patient=patient, broken=self._lose_reader)
        self._in.resume()

    async def run(self, sink: Sink) -> None:
        with self._inbound.feeding(sink) as over:
            await over

    def resume(self) -> None:
        self._inbound.resume()

    async def send(self, frames: Sequence[bytes]) -> None:
        await self._out.wait_writable()
        self._out.write(join(frames))
        await self._out.wait_writable()

    def try_send(self, frames: Sequence[bytes]) -> bool:
        if not self._out.writable:
            return False
        self._out.write(join(frames))
        return True

    def peer_can_read(self) -> bool:
        return not self._out.hung_up

    def discard(self) -> None:
        self._discarding = True
        self._splitter.clear()
        self._inbound.clear()
        self._read_on()

    async def _finish(self) -> None:
        """Flush and end our direction within the close deadline; discard what still arrives.

        The input is still read, because a peer that cannot write does not read either.
        """
        self._discarding = True
        self._read_on()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._limits.close_deadline):
                    await self._out.flushed()
        finally:
            self._out.close()

    def _lose_reader(self) -> None:
        """Do nothing: a subclass may end its input when nobody reads its output."""

    def _pause(self) -> None:
        self._in.pause()

    def _read_on(self) -> None:
        self._in.resume()

    def _take(self, data: bytes) -> None:
        if self._discarding:
            return
        frames = self._splitter.feed(data)
        if frames or self._splitter.unsplit:
            self._inbound.push(frames)

    def _end(self) -> None:
        rest = self._splitter.feed(b"\n")  # an unterminated last line counts
        if rest:
            self._inbound.push(rest)
        self._inbound.end()
