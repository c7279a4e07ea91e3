"""Connect to a primary: SUB for its publications and DEALER for calls, as one transport.

A Go publisher writes to its subscribers one after the other, so one that does not read stalls the others
(docs/dialects/pando.md, section 9). So both sockets are read at all times, and messages above the limit are dropped and
counted.

libzmq reconnects silently, and publications of the meantime would be missing without notice. So a lost connection ends
the transport, as everywhere else, after all received frames were delivered. The caller connects again.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence

import zmq

from dragoman.adapters.base import CloseReason, Sink, TransportLimits
from dragoman.adapters.meter import Meter
from dragoman.adapters.zeromq.contexts import shared_context
from dragoman.adapters.zeromq.curve import CurveClient
from dragoman.adapters.zeromq.intake import Intake
from dragoman.adapters.zeromq.polled import BATCH
from dragoman.adapters.zeromq.sockets import Sockets

CONNECT_DEADLINE = 5.0  # seconds: what a pando client allows for a connection (docs/dialects/pando.md, section 5)
RECEIVE_HWM = 100_000  # messages that libzmq buffers while the event loop is busy: half a second at full speed


class DialledSockets:
    """Two connections to one primary; created by `connect`. The frames are Parts of the channels `pub` and `rpc`."""

    def __init__(self, peer: str, sockets: Sockets) -> None:
        self.peer = peer
        self.meter = Meter()
        self._limits = sockets.limits
        self._lost = False  # a connection is gone, or we are closing
        self._closing: asyncio.Event | None = None
        self._pulling: asyncio.Handle | None = None
        self._sockets = sockets
        self._published = self._intake("pub", zmq.SUB, {zmq.RCVHWM: RECEIVE_HWM})
        self._answered = self._intake("rpc", zmq.DEALER, {})
        self._intakes = (self._published, self._answered)

    def _intake(self, channel: str, kind: zmq.SocketType, options: dict[int, int]) -> Intake:
        return Intake(channel, kind, options, self._sockets, self.meter, lost=self._gone, caught_up=self._pull)

    @property
    def missed(self) -> int:
        """Number of messages dropped unread since the beginning."""
        return sum(intake.missed for intake in self._intakes)

    async def open(self, publications: str, calls: str, topics: Sequence[bytes]) -> None:
        """Connect both sockets. The subscriptions are set before the first call can be made."""
        for topic in topics:
            self._published.polled.socket.setsockopt(zmq.SUBSCRIBE, topic)
        await self._published.connect(publications)
        await self._answered.connect(calls)

    async def run(self, sink: Sink) -> None:
        with self._published.inbound.feeding(sink) as published, self._answered.inbound.feeding(sink) as answered:
            self._pull()
            await asyncio.gather(published, answered)

    def resume(self) -> None:
        for intake in self._intakes:
            intake.inbound.resume()

    async def send(self, frames: Sequence[bytes]) -> None:
        polled = self._answered.polled
        for number, frame in enumerate(frames, 1):
            while not self._lost and not polled.send((b"", frame)):
                await polled.wait_for_activity()
            if self._lost:
                raise ConnectionResetError(f"{self.peer} is gone")
            if number % BATCH == 0:
                await asyncio.sleep(0)
        polled.sent()

    def try_send(self, frames: Sequence[bytes]) -> bool:
        return False  # sending a message of several parts may have to wait

    def peer_can_read(self) -> bool:
        return False

    def discard(self) -> None:
        for intake in self._intakes:
            intake.inbound.clear()

    async def close(self, reason: CloseReason = CloseReason.DONE, text: str = "") -> None:
        if self._closing is not None:
            await self._closing.wait()
            return
        self._closing = asyncio.Event()
        linger = 0.0 if self._lost else self._limits.close_deadline
        self._lost = True
        self._end()
        self._sockets.close(self._published.polled, 0)  # it can only hold subscriptions that were never sent
        try:
            await self._sockets.release(linger)
        finally:
            self._closing.set()

    # -- called by the intakes -------------------------------------------------------------------------

    def _gone(self) -> None:
        if not self._lost:
            self._lost = True
            for intake in self._intakes:
                intake.stop()
            self._pull()

    def _pull(self) -> None:
        """Read a batch of what a lost connection has brought if the link took the batch before; end after the last one.

        The next batch is another turn of the event loop: libzmq may hold 100,000 messages.
        """
        if self._pulling is not None:
            self._pulling.cancel()
            self._pulling = None
        if not self._lost or not all(intake.inbound.empty for intake in self._intakes):
            return
        pulled = [intake.pull() for intake in self._intakes]  # both of them
        if any(pulled):
            self._pulling = asyncio.get_running_loop().call_soon(self._pull)
        else:
            self._end()

    def _end(self) -> None:
        for intake in self._intakes:
            intake.inbound.end()


async def connect(
    publications: str,
    calls: str,
    limits: TransportLimits,
    topics: Sequence[bytes] = (b"",),
    curve: CurveClient | None = None,
) -> DialledSockets:
    """Connect to a primary at two `tcp://HOST:PORT` and subscribe to `topics`; with `curve`, encrypted.

    Raise OSError with the address and reason.
    """
    sockets = Sockets(limits, shared_context(), curve)
    try:
        transport = DialledSockets(publications.removeprefix("tcp://"), sockets)
    except zmq.ZMQError as error:
        await sockets.release(0)
        raise OSError(error.errno, f"{publications}: {error.strerror}") from error
    try:
        async with asyncio.timeout(CONNECT_DEADLINE):
            await transport.open(publications, calls, topics)
    except TimeoutError as error:
        await transport.close()
        raise TimeoutError(
            errno.ETIMEDOUT, f"{publications}: no ZeroMQ handshake within {CONNECT_DEADLINE:g} s"
        ) from error
    except BaseException:
        await transport.close()
        raise
    return transport
