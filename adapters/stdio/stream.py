"""A read end and a write end as one transport, with back-pressure in both directions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from dragoman.adapters.base import TransportLimits
from dragoman.adapters.inbound import LineInbound
from dragoman.adapters.lines import join
from dragoman.adapters.stdio.ends import File, ReadEnd, WriteEnd


class LineStream(LineInbound):
    """The common part of transports over two ends; each subclass defines `close`."""

    def __init__(self, source: File, sink: File, limits: TransportLimits, *, patient: bool = False) -> None:
        super().__init__(limits)
        self._limits = limits
        self._in = ReadEnd(source, self.data_received, self.end)
        self._out = WriteEnd(sink, limits.send_high, self.meter, patient=patient, broken=self._lose_reader)
        self._in.resume()

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

    async def _finish_writing(self) -> None:
        """Flush and end our direction within the close deadline; discard what still arrives.

        The input is still read, because a peer that cannot write does not read either.
        """
        self.discard()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._limits.close_deadline):
                    await self._out.flushed()
        finally:
            self._out.close()

    def _lose_reader(self) -> None:
        """Do nothing: a subclass may end its input when nobody reads its output."""

    def _control_reading(self) -> None:
        (self._in.pause if self.full else self._in.resume)()
