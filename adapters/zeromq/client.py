"""Connect to a primary: SUB for its publications and DEALER for calls, as one transport.

A Go publisher writes to its subscribers one after the other, so one that does not read stalls the others
(docs/dialects/pando.md, section 9). So both sockets are read at all times, and messages above the limit are dropped and
counted.

libzmq reconnects silently, and publications of the meantime would be missing without notice. So a lost connection ends
the transport, as everywhere else, after all received frames were delivered. The caller connects again. A primary that
dies loses both connections, and the last publications may still be in one of them: that one is read to its end.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from ipaddress import ip_address

import zmq

from dragoman.adapters.base import CloseReason, Sink, Transport, TransportLimits, connect_reason
from dragoman.adapters.flag import Flag
from dragoman.adapters.inbound import Inbound
from dragoman.adapters.lookup import look_up
from dragoman.adapters.meter import Meter
from dragoman.adapters.zeromq.curve import CurveClient
from dragoman.adapters.zeromq.polled import BATCH, Message
from dragoman.adapters.zeromq.sockets import Sockets, oversize, shared_context, tcp_address, use_ipv6
from dragoman.mappings.dialect import Missed, Parts

CONNECT_DEADLINE = 5.0  # seconds: what a pando client allows for a connection (docs/dialects/pando.md, section 5)
# Messages that libzmq may hold for each connection; `memory` does not count them. The others stay in the buffers of the
# system (2 to 6 MB). With 100,000 messages a publication takes as much CPU as with 32, and with 16 a fifth more.
UNREAD = 32
QUIET = 0.5  # seconds without a message after which the other connection of a lost primary is given up
LOOKS = 10  # periods of QUIET after which it is given up although messages still come
NEVER = 3_600_000  # ms before libzmq reconnects by itself: practically never
# ms in which the primary's system must confirm what was written, and have room for more. The kernel would wait for a
# quarter of an hour. Each call fails in that time: the publications of a primary that is alive hide that the connection
# for calls is dead.
CONFIRMED = 30_000

FAILED = (
    zmq.EVENT_CONNECT_RETRIED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)
NOT_ENCRYPTED = "the listener has another key than `server_key`, or does not use CURVE"
EVENTS = zmq.EVENT_CONNECTED | zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | FAILED


class Intake(Inbound):
    """A dialled socket: pushes what it receives to the link, and calls `lost` when the connection ends.

    The socket is read at all times, also before there is a link. While more than `receive_high` bytes wait for a link,
    messages are dropped and counted, and a Missed takes their place. While a link waits for its turn in the fair queue,
    the socket is not read: libzmq and the system hold the messages. After `stop` only `pull` reads: the primary is
    gone, so it cannot be stalled. `caught_up` is called when the link has taken every frame after some had to wait.
    """

    def __init__(
        self,
        channel: str,
        kind: zmq.SocketType,
        sockets: Sockets,
        meter: Meter,
        *,
        lost: Callable[[], None],
        caught_up: Callable[[], None],
    ) -> None:
        super().__init__(sockets.limits.receive_high, meter)
        self._channel = channel
        self._limits = sockets.limits
        self._encrypted = sockets.curve is not None
        self._caught_up = caught_up
        self.is_lost = False
        """True after the end of a connection that was established."""
        self.heard = False
        """True if messages have arrived since this was last set to False."""
        self._lost = lost
        self._dropped = 0  # messages dropped since the link last took every frame
        self._stopped = False  # only `pull` reads
        self._reached = False  # the TCP connection was accepted
        self._connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        socket = sockets.socket(kind, {zmq.RECONNECT_IVL: NEVER, zmq.RCVHWM: UNREAD, zmq.TCP_MAXRT: CONFIRMED})
        self.polled = sockets.poll(socket, self._arrived)
        sockets.monitor(self.polled, EVENTS, self._note_event)

    async def connect(self, address: str) -> None:
        """Connect and complete the handshake; raise OSError if nothing listens or the listener does not speak ZMTP."""
        use_ipv6(self.polled.socket, address)
        try:
            self.polled.socket.connect(address)
        except zmq.ZMQError as error:
            raise OSError(error.errno, f"{address}: {error.strerror}") from error
        try:
            await self._connected
        except OSError as error:
            raise type(error)(error.errno, f"{address}: {error.strerror}") from error

    def stop(self) -> None:
        """Stop reading, except by `pull`: the primary is gone."""
        self._stopped = True
        self.polled.pause()

    def pull(self) -> bool:
        """Read more of a lost connection's messages; return True if there may be more."""
        messages, more = self.polled.receive()
        if messages:
            self._arrived(messages)
        return more or bool(messages)

    # --------------------------------------------------------------------------------------------------

    def _control_reading(self) -> None:
        if self.full:
            if self._sink is not None:
                self.polled.pause()
            return
        if not self._stopped:
            self.polled.resume()
        dropped, self._dropped = self._dropped, 0
        if dropped:
            self.push([Missed(channel=self._channel, count=dropped)])
        self._caught_up()

    def _arrived(self, messages: list[Message]) -> None:
        self.heard, channel, limits = True, self._channel, self._limits
        first = messages[0] if messages else ()
        if len(messages) == len(first) == 1 and not self.size and len(first[0]) <= limits.max_message:
            self.push([Parts(channel, b"", first)])  # as lone tokens come
            return
        if self.size > limits.receive_high:
            self._dropped += len(messages)
            return
        self.push([oversize(message, limits) or Parts(channel, b"", message) for message in messages])

    def _note_event(self, event: int, value: int) -> None:
        if self._connected.done():
            if event == zmq.EVENT_DISCONNECTED:
                self.is_lost = True
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


class Phase(Enum):
    """The phases in which the two connections to a primary end. They can be closed in each phase.

    In LOST one of them is lost, and the other is read until it is lost, too, or idle. In GIVEN_UP both are given up:
    only `_pull` reads what libzmq still has.
    """

    CONNECTED = 1
    LOST = 2
    GIVEN_UP = 3
    CLOSING = 4


class DialledSockets(Transport):
    """Two connections to one primary; created by `connect`. The frames are Parts of the channels `pub` and `rpc`."""

    def __init__(self, peer: str, sockets: Sockets) -> None:
        self.peer = peer
        self.meter = Meter()
        self._limits = sockets.limits
        self._phase = Phase.CONNECTED
        self._looks = 0  # how often `_gone` has looked for further messages since a connection was lost
        self._closed = Flag()
        self._pulling: asyncio.Handle | None = None
        self._sockets = sockets
        self._published = self._intake("pub", zmq.SUB)
        self._answered = self._intake("rpc", zmq.DEALER)
        self._intakes = (self._published, self._answered)

    def _intake(self, channel: str, kind: zmq.SocketType) -> Intake:
        return Intake(channel, kind, self._sockets, self.meter, lost=self._gone, caught_up=self._pull)

    async def open(self, publications: str, calls: str, topics: Sequence[bytes]) -> None:
        """Connect both sockets. The subscriptions are set before the first call can be made."""
        for topic in topics:
            self._published.polled.socket.setsockopt(zmq.SUBSCRIBE, topic)
        await self._published.connect(publications)
        await self._answered.connect(calls)

    async def run(self, sink: Sink) -> None:
        try:
            taken = [intake.attach_sink(sink) for intake in self._intakes]
            self._pull()
            await asyncio.gather(*taken)
        finally:
            for intake in self._intakes:
                intake.detach_sink()

    def resume(self) -> None:
        for intake in self._intakes:
            intake.resume()

    async def send(self, frames: Sequence[bytes]) -> None:
        polled = self._answered.polled
        for number, frame in enumerate(frames, 1):
            while self._phase is Phase.CONNECTED and not polled.send((b"", frame)):
                await polled.wait_for_activity()
            if self._phase is not Phase.CONNECTED:
                raise ConnectionResetError(f"{self.peer} is gone")
            if number % BATCH == 0:
                await asyncio.sleep(0)
        polled.sent()

    def discard(self) -> None:
        for intake in self._intakes:
            intake.discard()

    async def close(self, reason: CloseReason = CloseReason.DONE, text: str = "") -> None:
        if self._phase is Phase.CLOSING:
            await self._closed.wait()
            return
        linger = self._limits.close_deadline if self._phase is Phase.CONNECTED else 0.0
        self._phase = Phase.CLOSING
        self._end()
        self._sockets.close(self._published.polled, 0)  # it can only hold subscriptions that were never sent
        try:
            await self._sockets.release(linger)
        finally:
            self._closed.set()

    # -- called by the intakes -------------------------------------------------------------------------

    def _gone(self) -> None:
        """Read until the other connection is lost, too, or idle; then read the messages that libzmq still has."""
        if self._phase in (Phase.GIVEN_UP, Phase.CLOSING):
            return
        self._phase, self._looks = Phase.LOST, self._looks + 1
        is_quiet = self._looks > 1 and self._is_taken and not any(intake.heard for intake in self._intakes)
        if is_quiet or self._looks > LOOKS or all(intake.is_lost for intake in self._intakes):
            self._phase = Phase.GIVEN_UP
            for intake in self._intakes:
                intake.stop()
            self._pull()
            return
        for intake in self._intakes:
            intake.heard = False
        asyncio.get_running_loop().call_later(QUIET, self._gone)

    def _pull(self) -> None:
        """Read a batch of what a lost connection has brought if the link took the batch before; end after the last one.

        The next batch is another turn of the event loop: its messages may be large.
        """
        if self._phase is not Phase.GIVEN_UP or not self._is_taken:
            return
        if self._pulling is not None:
            self._pulling.cancel()
            self._pulling = None
        pulled = [intake.pull() for intake in self._intakes]  # both of them
        if any(pulled):
            self._pulling = asyncio.get_running_loop().call_soon(self._pull)
        else:
            self._end()

    @property
    def _is_taken(self) -> bool:
        return not any(intake.size for intake in self._intakes)

    def _end(self) -> None:
        for intake in self._intakes:
            intake.end()


async def connect(
    publications: str,
    calls: str,
    limits: TransportLimits,
    topics: Sequence[bytes] = (b"",),
    curve: CurveClient | None = None,
) -> DialledSockets:
    """Connect to a primary at two `tcp://HOST:PORT` and subscribe to `topics`; with `curve`, encrypted.

    The addresses of a host are tried in turn, within CONNECT_DEADLINE. Raise OSError with the address and reason.
    """
    *others, last = await _numeric(publications, calls)
    deadline = CONNECT_DEADLINE / (len(others) + 1)
    for addresses in others:
        with suppress(OSError):
            return await _connect_at(*addresses, limits, topics, curve, deadline)
    return await _connect_at(*last, limits, topics, curve, deadline)


async def _connect_at(
    publications: str,
    calls: str,
    limits: TransportLimits,
    topics: Sequence[bytes],
    curve: CurveClient | None,
    deadline: float,
) -> DialledSockets:
    sockets = Sockets(limits, shared_context(), curve)
    try:
        transport = DialledSockets(publications.removeprefix("tcp://"), sockets)
    except zmq.ZMQError as error:
        await sockets.release(0)
        raise OSError(error.errno, f"{publications}: {error.strerror}") from error
    try:
        async with asyncio.timeout(deadline):
            await transport.open(publications, calls, topics)
    except TimeoutError as error:
        await transport.close()
        raise TimeoutError(errno.ETIMEDOUT, f"{publications}: no ZeroMQ handshake within {deadline:g} s") from error
    except BaseException:
        await transport.close()
        raise
    return transport


async def _numeric(publications: str, calls: str) -> list[tuple[str, str]]:
    """Return both addresses with each IP address of their host: libzmq would look it up in the thread of all sockets.

    Raise OSError if the host is unknown.
    """
    host, _, port = publications.removeprefix("tcp://").rpartition(":")
    with suppress(ValueError):
        ip_address(host.strip("[]"))
        return [(publications, calls)]
    ports = int(port), int(calls.rpartition(":")[2])
    try:
        found = await look_up(host)
    except OSError as error:
        raise OSError(errno.EHOSTUNREACH, f"unknown host: {error.strerror}") from error
    return [(tcp_address(address, ports[0]), tcp_address(address, ports[1])) for _family, address in found]
