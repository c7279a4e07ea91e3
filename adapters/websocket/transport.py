"""The transport of a WebSocket connection after its handshake, for both sides, and its writer.

Sending dominates the cost: a system call costs 20 times a frame (docs/measurements.md, section 2b), and aiohttp makes
one for every message. So BatchWriter writes the headers itself and sends a batch at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, Protocol

from aiohttp import ClientWebSocketResponse, WSMessage, WSMsgType
from aiohttp._websocket.reader import WebSocketDataQueue
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_websocket import WSMessageTextBytes

from dragoman.adapters.base import CloseReason, Sink, TransportLimits
from dragoman.adapters.flag import Flag
from dragoman.adapters.inbound import PulledInbound
from dragoman.adapters.meter import Meter
from dragoman.adapters.websocket.metered import MeteredReader
from dragoman.mappings.dialect import Frame, Oversize

HARD_LIMIT = 4  # times max_message: below it only the message is refused, above it the connection closes with 1009
AT_ONCE = 64  # messages that are read in a row: about 0.2 ms, then other tasks run
REASON_SIZE = 123  # bytes of text that fit into a close frame (RFC 6455, section 5.5)

ClientSocket = ClientWebSocketResponse[Literal[False]]


class Socket(Protocol):
    """A WebSocket as its transport uses it: aiohttp's class if we are the client, ServerSocket if we are the server."""

    _reader: WebSocketDataQueue

    @property
    def closed(self) -> bool: ...

    async def receive(self) -> WSMessage | WSMessageTextBytes: ...

    async def pong(self, data: bytes, /) -> None: ...

    async def close(self, *, code: int, message: bytes) -> object: ...


class BatchWriter:
    """Writes a batch of frames with one call, bypassing aiohttp's writer but obeying its flow control.

    It depends on `_drain_waiter` and `_paused` of aiohttp's protocol. `meter` counts what the peer does not read.
    `ping` is an encoded empty ping. A write raises ConnectionError if the peer is gone.
    """

    __slots__ = ("_encode", "_protocol", "_tcp", "_unsent", "ended", "meter", "ping")

    def __init__(
        self, protocol: BaseProtocol, tcp: asyncio.Transport, encode: Callable[[Sequence[bytes]], bytes], ping: bytes
    ) -> None:
        self.ping = ping
        self.ended = False
        """True once the closing handshake has begun: nothing more is written."""
        self.meter = Meter()
        self._unsent = 0  # bytes counted as waiting for the peer to read
        self._protocol = protocol
        self._tcp = tcp
        self._encode = encode

    async def send(self, frames: Sequence[bytes]) -> None:
        await self.write(self._encode(frames))

    async def write(self, data: bytes) -> None:
        """Write encoded frames at once and return when the peer keeps up; raise ConnectionError if it is gone."""
        await self._wait_writable()
        self._tcp.write(data)
        if self._protocol._paused:  # noqa: SLF001  # as below
            self._count_unsent()
        await self._wait_writable()

    def try_send(self, frames: Sequence[bytes]) -> bool:
        if self._protocol._paused or self.ended or self._tcp.is_closing():  # noqa: SLF001  # `writing_paused` costs a call for each token
            return False
        self._tcp.write(self._encode(frames))
        if self._protocol._paused:  # noqa: SLF001  # as above
            self._count_unsent()  # type: ignore[unreachable]  # mypy does not know that the write may have paused it
        return True

    def _count_unsent(self) -> None:
        if self._unsent == 0 and not self._tcp.is_closing():
            self._unsent = self._tcp.get_write_buffer_size()  # nothing is added to it until it has drained
            self._drained().add_done_callback(self._count_sent)
            self.meter.add(self._unsent)

    def _count_sent(self, _drained: asyncio.Future[None]) -> None:
        self.meter.add(-self._unsent)
        self._unsent = 0

    def _drained(self) -> asyncio.Future[None]:
        """Return the future of aiohttp's protocol that is done once the peer has read enough."""
        waiter = self._protocol._drain_waiter  # noqa: SLF001  # its own _drain_helper breaks once a waiting call is cancelled
        if waiter is None or waiter.done():
            waiter = asyncio.get_running_loop().create_future()
            waiter.add_done_callback(retrieve)
            self._protocol._drain_waiter = waiter  # noqa: SLF001  # as above
        return waiter

    async def _wait_writable(self) -> None:
        protocol = self._protocol
        while protocol.writing_paused and protocol.connected:
            await asyncio.wait((self._drained(),))  # the future is shared: cancelling this wait must not cancel it
        if self._tcp.is_closing():
            raise ConnectionResetError("the peer is gone")


class WebSocketTransport:
    """The transport of a WebSocket connection, after its handshake."""

    __slots__ = (
        "_count_pings",
        "_ended",
        "_failure",
        "_heard",
        "_limits",
        "_look",
        "_lost",
        "_pulled",
        "_reader",
        "_sink",
        "_socket",
        "_tcp",
        "_unread",
        "_waits",
        "_writer",
        "headers",
        "meter",
        "peer",
        "try_send",
    )

    def __init__(
        self,
        socket: Socket,
        tcp: asyncio.Transport,
        writer: BatchWriter,
        limits: TransportLimits,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        if not tcp.is_closing():  # uvloop refuses limits if the peer is gone already
            tcp.set_write_buffer_limits(high=limits.send_high)
        self.peer = address(tcp.get_extra_info("peername"))
        self._socket = socket
        self._tcp = tcp
        self._writer = writer
        self.try_send = writer.try_send  # no method of its own: it would be one more call for each token
        self._limits = limits
        self.headers = headers
        """The headers of the peer's handshake that the connection to a backend gets."""
        self.meter = writer.meter
        self._reader: MeteredReader | None = None
        self._sink: Sink | None = None
        self._waits = False  # for a message, and holds none
        self._failure: Exception | None = None  # of the sink, outside of the task
        self._pulled = PulledInbound(self.meter)
        self._unread = socket._reader._buffer  # noqa: SLF001  # the messages that aiohttp has buffered, each with its size
        self._ended = False  # the closing handshake has begun: no more reads or writes
        self._lost = Flag()
        self._heard = False  # a message has arrived since the last heartbeat check
        self._count_pings: Callable[[int], None] = _count_nothing
        self._look: asyncio.TimerHandle | None = None
        self._look_in(limits.heartbeat)

    async def run(self, sink: Sink) -> None:
        # aiohttp reads in C code without callbacks, so this transport must wait in a task.
        self._sink = sink
        try:
            while not self._ended:
                self._waits = True
                # A local name would keep the message or the frames in memory.
                await self._pulled.give(sink, await self._read(await self._socket.receive()))
        finally:
            self._sink, self._count_pings = None, _count_nothing
        if self._failure is not None:
            raise self._failure

    def resume(self) -> None:
        self._pulled.resume()

    async def send(self, frames: Sequence[bytes]) -> None:
        if self._socket.closed:
            raise ConnectionResetError(f"{self.peer} is gone")
        await self._writer.send(frames)

    def peer_can_read(self) -> bool:
        return False

    def watch_pings(self, count: Callable[[int], None]) -> None:
        """Call `count` with the number of pings and pongs that were read: `run` passes only messages."""
        self._count_pings = count

    def use_reader(self, reader: MeteredReader) -> None:
        """Read by this parser, which counts what it holds; called by the code that made the transport."""
        self._reader = reader

    def discard(self) -> None:
        self._end()
        if self._reader is not None:
            self._reader.discard()

    async def close(self, reason: CloseReason = CloseReason.DONE, text: str = "") -> None:
        self._end()
        cut = text.encode()[:REASON_SIZE].decode(errors="ignore")
        if self._reader is not None:
            self._reader.close(self._tcp.abort)
        deadline = asyncio.get_running_loop().call_later(self._limits.close_deadline, self._tcp.abort)
        try:
            await self._socket.close(code=reason, message=cut.encode())
            await self._lost.wait()
        finally:
            deadline.cancel()
            if not self._lost.is_set:
                self._tcp.abort()

    def _end(self) -> None:
        self._ended = self._writer.ended = True

    def push(self, message: bytes) -> bool:
        """Give a message that came alone to the sink at once; return False if the task must read it."""
        sink = self._sink
        if sink is None or not self._waits or self._ended or len(message) > self._limits.max_message:
            return False
        self._heard = True
        try:
            return sink((message,)) == 1
        except Exception as error:  # noqa: BLE001  # `run` raises it: aiohttp would only log it
            self._failure = error
            self._tcp.abort()
            return True

    def lost(self) -> None:
        """Mark the TCP connection as gone; called by the code that created this transport."""
        self._lost.set()
        if self._look is not None:
            self._look.cancel()

    # aiohttp's own heartbeat costs 2 us for each message on a busy link: 4 % of an event.

    def _look_in(self, seconds: float) -> None:
        if seconds and not self._lost.is_set:
            self._look = asyncio.get_running_loop().call_later(seconds, self._lives, seconds)

    def _lives(self, since: float) -> None:
        """Ping a peer that was silent for one heartbeat; abort if it stays silent for half of one more."""
        heartbeat = self._limits.heartbeat
        if self._heard or self._unread:
            self._heard = False
            self._look_in(heartbeat)
        elif since == heartbeat and not self._tcp.is_closing():
            self._tcp.write(self._writer.ping)
            self._look_in(heartbeat / 2)
        else:
            self._tcp.abort()

    async def _read(self, message: WSMessage | WSMessageTextBytes) -> list[Frame]:
        """Return a message with others that are buffered; return none for pings, and at the end of the stream."""
        self._waits, self._heard = False, True
        frames: list[Frame] = []
        for read in range(AT_ONCE):
            if read:
                message = await self._socket.receive()
            kind = message.type
            if kind is WSMsgType.TEXT or kind is WSMsgType.BINARY:
                size, limit = len(message.data), self._limits.max_message
                frames.append(message.data if size <= limit else Oversize(size=size, limit=limit))
            elif kind is WSMsgType.PING or kind is WSMsgType.PONG:
                self._count_pings(1)
                if kind is WSMsgType.PING:
                    with contextlib.suppress(ConnectionError):  # messages behind the ping must still be read
                        await self._socket.pong(message.data)
            else:  # CLOSE, CLOSING, CLOSED or ERROR
                self._end()
            if self._ended or not (self._ready() if frames else self._unread):
                break
        if not frames and not self._ended:
            await asyncio.sleep(0)  # a flood of pings: reading a buffered message does not wait
        if frames and self._reader is not None and self._reader.counted:
            self._reader.messages_read()
        return frames

    def _ready(self) -> bool:
        """Return True if a frame is buffered."""
        return bool(self._unread) and self._unread[0][0].type in (WSMsgType.TEXT, WSMsgType.BINARY)


def _count_nothing(_count: int) -> None:
    """Count no pings: no client is served."""


def address(name: tuple[str, int] | None) -> str:
    """Return the name of a TCP peer or socket, for logs and endpoints."""
    if name is None:
        return "a disconnected peer"
    host, port = name[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def retrieve(waiter: asyncio.Future[None]) -> None:
    """Mark the waiter's exception as retrieved; the loss of a connection is detected by `is_closing`."""
    if not waiter.cancelled():
        waiter.exception()
