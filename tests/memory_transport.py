"""A transport in memory, whose peer is played by the test."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dragoman.adapters.base import RECEIVE_HIGH, CloseReason
from dragoman.adapters.inbound import Inbound
from dragoman.mappings.dialect import Frame
from tests.idle import settle


class MemoryTransport(Inbound):
    """A transport in memory: `got` are the frames that were sent to its peer. With `reading` cleared the peer
    does not read. Without `eager` it accepts no frame at once, like a transport that must wait.
    """

    peer = "memory"

    def __init__(self) -> None:
        super().__init__(RECEIVE_HIGH)
        self.discarded = False
        self._unread: list[Sequence[Frame]] = []
        self.got: list[bytes] = []
        self.writes = 0
        self.reading = asyncio.Event()
        self.reading.set()
        self.closed: CloseReason | None = None
        self.close_text = ""
        self.broken = False
        self.eager = True
        self.half_closed = False  # a peer that hangs up has ended its own direction alone

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
        self._unread.append(frames)
        asyncio.get_running_loop().call_soon(self._read)

    async def says(self, *frames: Frame) -> None:
        """Send these frames as the peer, in one piece, and let the gateway act on them."""
        self.say(*frames)
        await settle()

    async def reads_on(self) -> None:
        """Let the peer read, and the gateway write what waits."""
        self.reading.set()
        await settle()

    def _read(self) -> None:
        if self._unread:
            self.push(self._unread.pop(0))

    def join_pieces(self) -> None:
        """Join the frames of the peer that are not read yet into one piece."""
        if self._unread:
            self._unread = [[frame for piece in self._unread for frame in piece]]

    def hang_up(self) -> None:
        """Disconnect the peer."""
        asyncio.get_running_loop().call_soon(self.end)

    async def hangs_up(self) -> None:
        """Disconnect the peer, and let the gateway act on that."""
        self.hang_up()
        await settle()

    def is_open(self) -> bool:
        """Return True if the transport was not closed."""
        return self.closed is None
