"""Newline-delimited frames over a connected stream: one transport, whatever address its listener or client has.

LineTransport is both asyncio's protocol and a Transport. Whole reads are split (5 times cheaper than a StreamReader)
and pushed to the link. A peer may write and then close at once, for example a pod's parent that connects, writes `run`
and closes without reading (docs/dialects/pod.md, section 11). So everything that the kernel still holds is read and
delivered before `run` ends, even if our own failed write revealed the close.

A peer that is refused may not have written yet. If we closed at once, its write would fail, and many clients then never
read why. So such a connection lingers: we end our direction and drop what still comes, until the peer closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
from collections.abc import Callable, Sequence
from typing import cast

from dragoman.adapters.base import CloseReason, PeerFacts, TransportLimits
from dragoman.adapters.flag import Flag
from dragoman.adapters.inbound import LineInbound, drop_all
from dragoman.adapters.lines import line_buffers

READ_SIZE = 256 * 1024  # the size that asyncio uses
LINGER = 1.0  # seconds that a refused peer has to write, to read the refusal and to close
LINGER_BYTES = 1 << 20  # bytes that it may still write: as many as a command has (`max_command`)
LINGERING_MAX = 16  # refused connections of a listener that may linger at one time; further ones are closed immediately


class LineTransport(LineInbound, asyncio.Protocol):
    """Carries frames as lines over one connection. A subclass sets `peer`, for logs, and `facts` in `connection_made`.

    `accept` takes the connection of a client. `lingering` is the set of its listener's refused connections that are not
    closed yet.
    """

    __slots__ = ("_accept", "_blocked", "_limits", "_lingering", "_lost", "_transport", "_unsent", "facts", "peer")

    def __init__(
        self,
        limits: TransportLimits,
        accept: Callable[[LineTransport], None] | None = None,
        lingering: set[LineTransport] | None = None,
    ) -> None:
        super().__init__(limits)
        self.peer, self.facts = "", PeerFacts()
        self._limits = limits
        self._accept = accept
        self._lingering = lingering
        self._unsent = 0  # bytes counted as waiting for the peer to read
        self._blocked: Flag | None = None  # set once the peer reads again; None while it keeps up
        self._lost = Flag()

    async def send(self, frames: Sequence[bytes]) -> None:
        await self._wait_writable()
        self.try_send(frames)
        await self._wait_writable()

    def try_send(self, frames: Sequence[bytes]) -> bool:
        if self._blocked is not None or self._transport.is_closing():
            return False
        for buffer in line_buffers(frames):  # `writelines` of asyncio never pauses us before 3.13.2 (CVE-2024-12254)
            self._transport.write(buffer)
        if self._blocked is not None:
            self._count_unsent()  # type: ignore[unreachable]  # mypy does not know that the write may have paused us
        return True

    def peer_can_read(self) -> bool:
        return not self._transport.is_closing() and not _hung_up(self._transport.get_extra_info("socket").fileno())

    async def close(self, reason: CloseReason = CloseReason.DONE, text: str = "") -> None:
        self.discard()
        deadline = asyncio.get_running_loop().call_later(self._limits.close_deadline, self._transport.abort)
        try:
            if reason is CloseReason.FULL and self._over is None and self._lingering is not None:
                await self._linger(self._lingering)
            self._transport.close()
            await self._lost.wait()
        finally:
            deadline.cancel()
            if not self._lost.is_set:
                self._transport.abort()

    async def _linger(self, lingering: set[LineTransport]) -> None:
        """End our direction and drop what a refused peer writes, until it closes; both are bounded."""
        if len(lingering) >= LINGERING_MAX or self._transport.is_closing():
            return
        lingering.add(self)
        try:
            self._transport.write_eof()
            if not self._ended:  # the peer has not closed its own direction
                self._transport.set_protocol(_Lingering(self._transport, self.connection_lost))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LINGER):
                        await self._lost.wait()
        finally:
            lingering.discard(self)

    async def _wait_writable(self) -> None:
        while self._blocked is not None:
            await self._blocked.wait()
        if self._transport.is_closing():
            raise ConnectionResetError(f"{self.peer} is gone")

    def _count_unsent(self) -> None:
        self._unsent = self._transport.get_write_buffer_size()  # nothing is added to it until it has drained
        self.meter.add(self._unsent)

    # -- called by the event loop ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport does not inherit from it
        self._transport.set_write_buffer_limits(high=self._limits.send_high)
        if self._accept is not None:
            self._accept(self)

    def eof_received(self) -> bool:
        self.end()
        return True  # the peer may still read: `socat` waits for answers after EOF of its input

    def pause_writing(self) -> None:
        self._blocked = Flag()

    def resume_writing(self) -> None:
        blocked, self._blocked = self._blocked, None
        if blocked is not None:
            blocked.set()
        self.meter.add(-self._unsent)
        self._unsent = 0

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and not isinstance(exc, OSError):  # an error in this process, such as MemoryError
            self._splitter.clear()
        elif not self._ended and self._sink is not drop_all:
            self._read_rest()
        self.end()
        self._lost.set()
        self.resume_writing()

    # --------------------------------------------------------------------------------------------------

    def _control_reading(self) -> None:
        if not self._transport.is_closing():
            (self._transport.pause_reading if self.full else self._transport.resume_reading)()

    def _read_rest(self) -> None:
        """Read the rest of a closed peer's data; bounded, because the peer may have closed only its reading side."""
        descriptor = self._transport.get_extra_info("socket").fileno()
        room = max(self._limits.receive_high, READ_SIZE)
        with contextlib.suppress(OSError):
            while room > 0 and (data := os.read(descriptor, READ_SIZE)):
                room -= len(data)
                self.data_received(data)


class _Lingering(asyncio.Protocol):
    """Drops what a refused peer still writes; ends the connection when that is too much, or when the peer ends it."""

    def __init__(self, transport: asyncio.Transport, lost: Callable[[Exception | None], None]) -> None:
        self._transport, self._lost = transport, lost
        self._room = LINGER_BYTES

    def data_received(self, data: bytes) -> None:
        self._room -= len(data)
        if self._room <= 0:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost(exc)


def _hung_up(descriptor: int) -> bool:
    """Return True if the peer has closed both directions, without writing to it."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return bool(poll.poll(0))
