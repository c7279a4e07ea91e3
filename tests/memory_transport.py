"""A transport in memory, whose peer is played by the test."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dragoman.adapters.base import CloseReason, Sink
from dragoman.adapters.inbound import PulledInbound
from dragoman.adapters.meter import Meter
from dragoman.mappings.dialect import Frame


class MemoryTransport:
    """A transport in memory: `said` are the frames of the peer, `got` those sent to it. With `reading` cleared the peer
    does not read. Without `eager` it accepts no frame at once, like a transport that must wait.
    """

    peer = "memory"

    def __init__(self) -> None:
        self.meter = Meter()
        self.discarded = False
        self.said: asyncio.Queue[list[Frame]] = asyncio.Queue()
        self._pulled = PulledInbound()
        self.got: list[bytes] = []
        self.writes = 0
        self.reading = asyncio.Event()
        self.reading.set()
        self.closed: CloseReason | None = None
        self.close_text = ""
        self.broken = False
        self.eager = True
        self.half_closed = False  # a peer that hangs up has ended its own direction alone

    async def run(self, sink: Sink) -> None:
        while frames := await self.said.get():
            await self._pulled.give(sink, frames)
            del frames  # or it would hold them until the next ones

    def resume(self) -> None:
        self._pulled.resume()

    async def send(self, frames: Sequence[bytes]) -> None:
        if self.broken:
            raise BrokenPipeError("the peer is gone")
        self.writes += 1
        self.got += frames
        await self.reading.wait()

    def try_send(self, frames: Sequence[bytes]) -> bool:
        if self.broken or not self.eager or not self.reading.is_set():
            return False
        self.writes += 1
        self.got += frames
        return True

    def peer_can_read(self) -> bool:
        return self.half_closed and not self.broken

    def discard(self) -> None:
        self.discarded = True

    async def close(self, reason: CloseReason = CloseReason.DONE, text: str = "") -> None:
        self.closed = reason
        self.close_text = text

    def say(self, *frames: Frame) -> None:
        """Send these frames as the peer, in one piece."""
        self.said.put_nowait(list(frames))

    def join_pieces(self) -> None:
        """Join the frames of the peer that are not read yet into one piece."""
        frames: list[Frame] = []
        while not self.said.empty():
            frames += self.said.get_nowait()
        if frames:
            self.said.put_nowait(frames)

    def hang_up(self) -> None:
        """Disconnect the peer."""
        self.said.put_nowait([])

    def is_open(self) -> bool:
        """Return True if the transport was not closed."""
        return self.closed is None
