"""The transport of a WebSocket connection after its handshake, for both sides, and its writer.

Sending dominates the cost: a system call costs 20 times a frame (docs/measurements.md, section 2b), and aiohttp makes
one for every message. So BatchWriter writes the headers itself and sends a batch at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType

import structlog
from aiohttp import WSCloseCode, WSMsgType
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_websocket import WebSocketError

from dragoman.adapters.base import CloseReason, Sink, TransportLimits, do_nothing
from dragoman.adapters.flag import Flag
from dragoman.adapters.inbound import Inbound, drop_all
from dragoman.adapters.meter import Meter
from dragoman.adapters.send_queue import count_confirmed, count_unread
from dragoman.adapters.websocket.frames import CLOSE, PING, PONG, Encoding
from dragoman.adapters.websocket.message_parser import DATA, TYPE, Message, MessageParser
from dragoman.mappings.dialect import HEAD, Frame, Oversize

HARD_LIMIT = 4  # times max_message: below it only the message is refused, above it the connection closes with 1009
REASON_SIZE = 123  # bytes of text that fit into a close frame (RFC 6455, section 5.5)
CODE_SIZE = 2  # bytes of the code in front of it
CODE_MAX = 4999  # of a close frame (RFC 6455, section 7.4.2)
PONGS_MAX = 64  # pings of a read that are answered; RFC 6455, section 5.5.3 demands an answer to the last one alone

CONTENT = attrgetter("data")

log = structlog.get_logger("dragoman.link")


class BatchWriter:
    """Writes a batch of frames with one call, bypassing aiohttp's writer but obeying its flow control.

    It depends on `_drain_waiter` and `_paused` of aiohttp's protocol. `meter` counts what the peer does not read. A
    write raises ConnectionError if the peer is gone.
    """

    __slots__ = ("_encode", "_encoding", "_pongs", "_protocol", "_tcp", "_unsent", "ended", "meter")

    def __init__(self, protocol: BaseProtocol, tcp: asyncio.Transport, encoding: Encoding) -> None:
        self.ended = False
        """True once the closing handshake has begun: nothing more is written."""
        self.meter = Meter()
        self._unsent = 0  # bytes counted as waiting for the peer to read
        self._pongs = b""  # answers to pings that wait for the peer to read
        self._protocol = protocol
        self._tcp = tcp
        self._encoding = encoding
        self._encode = encoding.text

    async def send(self, frames: Sequence[bytes]) -> None:
        """Write frames at once and return when the peer keeps up; raise ConnectionError if it is gone."""
        await self._wait_writable()
        self._write(self._encode(frames))
        await self._wait_writable()

    def try_send(self, frames: Sequence[bytes]) -> bool:
        if self._protocol._paused or self.ended or self._tcp.is_closing():  # noqa: SLF001  # `writing_paused` costs a call for each token
            return False
        self._tcp.write(self._encode(frames))
        if self._protocol._paused:  # noqa: SLF001  # as above
            self._count_unsent()  # type: ignore[unreachable]  # mypy does not know that the write may have paused it
        return True

    def answer_pings(self, pings: Sequence[bytes]) -> None:
        """Answer pings with their data now.

        If the peer does not read, only the last pings are answered, once it reads again.
        """
        pongs = b"".join([self._encoding.control(PONG, data) for data in pings[-PONGS_MAX:]])
        if self._protocol._paused:  # noqa: SLF001  # as above
            if not self._pongs:
                self._drained().add_done_callback(self._write_pongs)
            self._pongs = pongs
        elif not (self.ended or self._tcp.is_closing()):
            self._write(pongs)

    def ping(self) -> None:
        """Send an empty ping."""
        self._tcp.write(self._encoding.control(PING, b""))

    def close(self, code: int, reason: str) -> None:
        """Send a close frame, and nothing more. Its reason is cut to what fits."""
        if not self.ended and not self._tcp.is_closing():
            shortened = reason.encode()[:REASON_SIZE].decode(errors="ignore").encode()
            self._tcp.write(self._encoding.control(CLOSE, code.to_bytes(CODE_SIZE) + shortened))
        self.ended = True

    def _write(self, data: bytes) -> None:
        self._tcp.write(data)
        if self._protocol._paused:  # noqa: SLF001  # as above
            self._count_unsent()

    def _count_unsent(self) -> None:
        if self._unsent == 0 and not self._tcp.is_closing():
            self._unsent = self._tcp.get_write_buffer_size()  # nothing but a close frame is added until it has drained
            self._drained().add_done_callback(self._count_sent)
            self.meter.add(self._unsent)

    def _write_pongs(self, _drained: asyncio.Future[None]) -> None:
        pongs, self._pongs = self._pongs, b""
        if not (self.ended or self._tcp.is_closing()):
            self._write(pongs)

    def _count_sent(self, _drained: asyncio.Future[None]) -> None:
        self.meter.add(-self._unsent)
        self._unsent = 0

    def _drained(self) -> asyncio.Future[None]:
        """Return the future of aiohttp's protocol that is done once the peer has read enough."""
        waiter = self._protocol._drain_waiter  # noqa: SLF001  # its own _drain_helper breaks once a waiting call is cancelled
        if waiter is None or waiter.done():
            waiter = asyncio.get_running_loop().create_future()
            waiter.add_done_callback(_retrieve)
            self._protocol._drain_waiter = waiter  # noqa: SLF001  # as above
        return waiter

    async def _wait_writable(self) -> None:
        protocol = self._protocol
        while protocol.writing_paused and protocol.connected:
            await asyncio.wait((self._drained(),))  # the future is shared: cancelling this wait must not cancel it
        if self.ended or self._tcp.is_closing():
            raise ConnectionResetError("the peer is gone")


class WebSocketTransport(Inbound):
    """The transport of a WebSocket connection, after its handshake."""

    __slots__ = (
        "_confirmed",
        "_count_pings",
        "_holds",
        "_is_paused",
        "_limits",
        "_lost",
        "_next_check",
        "_parser",
        "_peer_closed",
        "_tcp",
        "_violation",
        "_writer",
        "headers",
        "peer",
        "reason",
        "try_send",
    )

    def __init__(
        self,
        tcp: asyncio.Transport,
        writer: BatchWriter,
        limits: TransportLimits,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(limits.receive_high, writer.meter)
        if not tcp.is_closing():  # uvloop refuses limits if the peer is gone already
            tcp.set_write_buffer_limits(high=limits.send_high)
        self.peer = address(tcp.get_extra_info("peername"))
        self._tcp = tcp
        self._writer = writer
        self.try_send = writer.try_send  # no method of its own: it would be one more call for each token
        self._limits = limits
        self.headers = headers
        """The headers of the peer's handshake that the connection to a backend gets."""
        self._parser: MessageParser | None = None
        self._holds = False  # the parser has data that waits for its turn
        self._is_paused = False  # the connection is not read
        self.reason = ""  # why the peer closed the connection, if it told an error
        self._violation: WebSocketError | None = None  # for which the peer is disconnected
        self._peer_closed = Flag()  # or the connection is gone: no close frame is to be expected any more
        self._lost = Flag()
        self._count_pings: Callable[[int], None] = do_nothing
        self._next_check: asyncio.TimerHandle | None = None
        self._confirmed = 0  # bytes that had arrived at the peer's system when its answer to a ping was last waited for
        self._schedule_check(limits.heartbeat)

    async def run(self, sink: Sink) -> None:
        try:
            await super().run(sink)
        finally:
            self._count_pings = do_nothing
        self._close(WSCloseCode.OK, "")
        self._tcp.close()

    async def send(self, frames: Sequence[bytes]) -> None:
        await self._writer.send(frames)

    def peer_can_read(self) -> bool:
        return False

    def watch_pings(self, count: Callable[[int], None]) -> None:
        """Call `count` with the number of pings and pongs that were read: `run` passes only messages."""
        self._count_pings = count

    def use_parser(self, parser: MessageParser) -> None:
        """Control this parser, which passes on what the peer sends; called by the code that made the transport."""
        self._parser = parser

    def discard(self) -> None:
        super().discard()
        if self._parser is not None:
            self._parser.discard()

    async def close(self, reason: CloseReason = CloseReason.DONE, text: str = "") -> None:
        super().discard()  # the parser reads on, up to the peer's close frame
        if self._parser is not None and not self._ended:
            self._parser.close()
        deadline = asyncio.get_running_loop().call_later(self._limits.close_deadline, self._tcp.abort)
        try:
            if not self._writer.ended:
                self._close(reason, text)
            if not self._peer_closed.is_set:
                await self._peer_closed.wait()
            self._tcp.close()
            await self._lost.wait()
        finally:
            deadline.cancel()
            if not self._lost.is_set:
                self._tcp.abort()
            self._parser = None  # it refers to us

    def _close(self, code: int, reason: str) -> None:
        """Tell the peer that the connection closes, and why: for its own violation of the protocol if there was one."""
        if self._violation is not None:
            code, reason = self._violation.code, str(self._violation)
        self._writer.close(code, reason)

    def lost(self) -> None:
        """Mark the TCP connection as gone; called by its protocol."""
        self._lost.set()
        if not self._peer_closed.is_set:
            self._peer_closed.set()
        if self._next_check is not None:
            self._next_check.cancel()

    # -- called by the parser --------------------------------------------------------------------------

    def messages_received(self, messages: Sequence[Message]) -> None:
        """Push the messages of a read, answer its pings, and end the stream at a close frame."""
        if self._ended:
            return
        close = None
        if not DATA.issuperset(map(TYPE, messages)):
            messages, close = self._act_on_control(messages)
        if messages:
            frames: list[Frame] = [*map(CONTENT, messages)]
            if max(map(len, frames)) > self._limits.max_message:  # type: ignore[arg-type]  # all are bytes
                frames = [self._frame(message.data) for message in messages]
            self.push(frames)
        if close is not None:
            code = close.data
            self.reason = _close_reason(code, close.extra)
            wrong = code == WSCloseCode.ABNORMAL_CLOSURE or code > CODE_MAX  # aiohttp accepts these
            text = f"no peer may send the close code {code}"
            self.stream_ended(WebSocketError(WSCloseCode.PROTOCOL_ERROR, text) if wrong else None)

    def stream_ended(self, error: WebSocketError | None) -> None:
        """End the stream. After a violation of the protocol, send the peer a close frame with the reason."""
        if self._ended:
            return
        self._peer_closed.set()
        if self._parser is not None:
            self._parser.close()
        if error is not None and self._sink is not drop_all:
            self._violation = error
            code, reason = int(error.code), str(error)
            log.info("invalid WebSocket frame, disconnecting the peer", peer=self.peer, code=code, reason=reason)
            self._control_reading()
        self.end()

    def hold(self, *, waits: bool) -> None:
        self._holds = waits
        self._control_reading()

    def abort(self) -> None:
        self._tcp.abort()

    def _frame(self, data: bytes) -> Frame:
        limit = self._limits.max_message
        return data if len(data) <= limit else Oversize(size=len(data), limit=limit, head=data[:HEAD])

    def _act_on_control(self, messages: Sequence[Message]) -> tuple[list[Message], Message | None]:
        """Count and answer the pings up to a close frame. Return the messages up to there, and the close frame."""
        data, pings, control = list[Message](), list[bytes](), 0
        close = None
        for message in messages:
            if message.type in DATA:
                data.append(message)
                continue
            if message.type is WSMsgType.CLOSE:
                close = message
                break
            control += 1
            if message.type is WSMsgType.PING:
                pings.append(message.data)
        if control:
            self._count_pings(control)
        if pings:
            self._writer.answer_pings(pings)
        return data, close

    def _control_reading(self) -> None:
        """Read the connection, or stop reading it, as the sink, the parser and the state of the stream require."""
        paused = self._holds or self.full or self._violation is not None
        if paused is not self._is_paused and not self._tcp.is_closing():
            self._is_paused = paused
            (self._tcp.pause_reading if paused else self._tcp.resume_reading)()

    # -- heartbeats: aiohttp's own cost 2 us for each message on a busy link, 4 % of an event -------------

    def _schedule_check(self, seconds: float) -> None:
        if seconds and not self._lost.is_set:
            self._next_check = asyncio.get_running_loop().call_later(seconds, self._check_heartbeat, seconds)

    def _check_heartbeat(self, since: float) -> None:
        """Ping a peer that was silent for one heartbeat; abort if it stays silent for half of one more.

        A peer that reads slowly answers late: the ping is behind all that was sent before. So it may be silent as long
        as it takes what waits for it. A peer that is not read cannot be heard, but it must take what waits for it too.
        """
        heartbeat = self._limits.heartbeat
        if self._parser is not None and self._parser.has_received():
            self._schedule_check(heartbeat)
        elif since == heartbeat and not self._tcp.is_closing():
            self._is_reading()
            self._writer.ping()
            self._schedule_check(heartbeat / 2)
        elif self._is_reading():
            self._schedule_check(heartbeat / 2)
        else:
            log.info("silent peer, disconnecting it", peer=self.peer)
            self._tcp.abort()

    def _is_reading(self) -> bool:
        """Return True if the peer has read a part of the unsent data since the last call.

        If there is no unsent data, or the system does not report it, return True while we do not read from the peer.
        """
        connection = self._tcp.get_extra_info("socket")
        descriptor = connection.fileno() if connection is not None else -1
        if descriptor < 0:
            return False
        before, self._confirmed = self._confirmed, count_confirmed(descriptor)
        is_known = self._confirmed > 0 and count_unread(descriptor) > 0
        return self._confirmed != before if is_known else self._is_paused


def _close_reason(code: int, words: str | None) -> str:
    """Return the code and the words of a close frame; "" if they report no error."""
    return "" if code <= WSCloseCode.OK else f"closed with code {code}" + (f", {words}" if words else "")


def address(name: tuple[str, int] | None) -> str:
    """Return the name of a TCP peer or socket, for logs and endpoints."""
    if name is None:
        return "a disconnected peer"
    host, port = name[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _retrieve(waiter: asyncio.Future[None]) -> None:
    """Mark the waiter's exception as retrieved; the loss of a connection is detected by `is_closing`."""
    if not waiter.cancelled():
        waiter.exception()
