"""A dialled ZeroMQ socket: its connection, and the messages that it receives.

The socket is read at all times, also before there is a link. While more than `receive_high` bytes wait for a link,
messages are dropped and counted, and a Missed takes their place. A link that waits for its turn soon goes on: until
then the messages stay with libzmq. After the connection is lost no primary can be stalled; then only `pull` reads.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

import zmq

from dragoman.adapters.base import connect_reason
from dragoman.adapters.inbound import Inbound, memory
from dragoman.adapters.meter import Meter
from dragoman.adapters.zeromq.polled import Message
from dragoman.adapters.zeromq.sockets import Sockets, oversize
from dragoman.mappings.dialect import Frame, Missed, Parts

NEVER = 3_600_000  # ms before libzmq reconnects by itself: practically never

FAILED = (
    zmq.EVENT_CONNECT_RETRIED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)
NOT_ENCRYPTED = "the listener has another key than `server_key`, or does not use CURVE"
EVENTS = zmq.EVENT_CONNECTED | zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | FAILED


class Intake:
    """Pushes frames into its `inbound`, and calls `lost` when the connection ends.

    `caught_up` is called when the link has taken every frame after some had to wait.
    """

    def __init__(
        self,
        channel: str,
        kind: zmq.SocketType,
        options: dict[int, int],
        sockets: Sockets,
        meter: Meter,
        *,
        lost: Callable[[], None],
        caught_up: Callable[[], None],
    ) -> None:
        self.missed = 0
        """Number of messages dropped since the beginning."""
        self._channel = channel
        self._limits = sockets.limits
        self._encrypted = sockets.curve is not None
        self.inbound = Inbound(sockets.limits.receive_high, self._wait, self._taken, meter)
        self._caught_up = caught_up
        self._lost = lost
        self._dropped = 0  # messages dropped since the link last took every frame
        self._stopped = False  # the connection is lost, and only `pull` reads
        self._reached = False  # the TCP connection was accepted
        self._connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        socket = sockets.socket(kind, {zmq.RECONNECT_IVL: NEVER, **options})
        self.polled = sockets.poll(socket, self._arrived)
        sockets.monitor(self.polled, EVENTS, self._hear)

    async def connect(self, address: str) -> None:
        """Connect and complete the handshake; raise OSError if nothing listens or the listener does not speak ZMTP."""
        try:
            self.polled.socket.connect(address)
        except zmq.ZMQError as error:
            raise OSError(error.errno, f"{address}: {error.strerror}") from error
        try:
            await self._connected
        except OSError as error:
            raise type(error)(error.errno, f"{address}: {error.strerror}") from error

    def stop(self) -> None:
        """Stop reading, except by `pull`: the connection is lost."""
        self._stopped = True
        self.polled.pause()

    def pull(self) -> bool:
        """Read more of a lost connection's messages; return True if there may be more."""
        messages, more = self.polled.receive()
        self._arrived(messages)
        return more or bool(messages)

    # --------------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        if self.inbound.has_sink:
            self.polled.pause()

    def _taken(self) -> None:
        if not self._stopped:
            self.polled.resume()
        dropped, self._dropped = self._dropped, 0
        if dropped:
            self.inbound.push([Missed(channel=self._channel, count=dropped)])
        self._caught_up()

    def _arrived(self, messages: list[Message]) -> None:
        channel, limits = self._channel, self._limits
        first = messages[0] if messages else ()
        if len(messages) == len(first) == 1 and not self.inbound.size and len(first[0]) <= limits.max_message:
            self.inbound.push([Parts(channel, b"", first)])  # as lone tokens come
            return
        room = limits.receive_high - self.inbound.size
        frames: list[Frame] = []
        for number, message in enumerate(messages):
            if room < 0:
                dropped = len(messages) - number
                self._dropped += dropped
                self.missed += dropped
                break
            frame = oversize(message, limits) or Parts(channel, b"", message)
            room -= memory(frame)
            frames.append(frame)
        if frames:
            self.inbound.push(frames)

    def _hear(self, event: int, value: int) -> None:
        if self._connected.done():
            if event == zmq.EVENT_DISCONNECTED:
                self._lost()
        elif event == zmq.EVENT_CONNECTED:
            self._reached = True
        elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self._connected.set_result(None)
        elif event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            self._connected.set_exception(PermissionError(errno.EACCES, "the listener does not accept our public key"))
        elif self._reached:
            why = NOT_ENCRYPTED if self._encrypted else "the listener is not a matching ZeroMQ socket, or needs CURVE"
            self._connected.set_exception(ConnectionAbortedError(errno.ECONNABORTED, why))
        else:
            self._connected.set_exception(
                ConnectionRefusedError(errno.ECONNREFUSED, connect_reason(errno.ECONNREFUSED))
            )
