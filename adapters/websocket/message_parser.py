"""Parse what a peer sends into messages, and count the message that is not finished.

aiohttp's parser keeps an unfinished message where Python cannot see it. So this class counts the bytes that the parser
was fed since the last complete message.

It also ends a flood. A connection that is about to close is read until the peer's close frame. So it is aborted if its
peer sends much more than that.

    MessageParser     parses what was read, and passes on the messages
    ClientReader      takes turns with other clients, and bounds control frames and fragments (client_reader.py)
    ServerReader      pushes a server's message that comes alone (server_reader.py)
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from operator import attrgetter
from typing import Protocol

import structlog
from aiohttp import WSMessage, WSMsgType
from aiohttp._websocket.reader import WebSocketDataQueue  # the only queue that aiohttp's parser in C accepts
from aiohttp.http_websocket import WebSocketError, WebSocketReader, WSMessageTextBytes

from dragoman.adapters.meter import STEP, Meter

CLOSING_MAX = 64 * 1024  # bytes that a peer may send after our close frame: 5 ms of tiny messages, and usually none
DATA = frozenset((WSMsgType.TEXT, WSMsgType.BINARY))
PINGS = frozenset((WSMsgType.PING, WSMsgType.PONG))

log = structlog.get_logger("dragoman.link")

Message = WSMessage | WSMessageTextBytes
TYPE = attrgetter("type")


class Receiver(Protocol):
    """The receiver of the messages, and of the end, of a connection's stream."""

    def messages_received(self, messages: Sequence[Message]) -> None:
        """Act on the messages of a read, in order: those with data, pings, pongs and the close frame."""

    def stream_ended(self, error: WebSocketError | None) -> None:
        """Note the end of the stream, or the error that ends it. It is called once, and nothing after it."""

    def hold(self, *, waits: bool) -> None:
        """Pause reading while data waits for its turn; `waits` says whether it does."""

    def abort(self) -> None:
        """Disconnect the peer at once."""


class Completed(WebSocketDataQueue):
    """Takes the messages that aiohttp's parser completes: aiohttp's own queue keeps them for a task."""

    __slots__ = ("error", "messages")

    # aiohttp's parser in Python reads these, to stop while its queue is full. The one in C has fields of its own.
    _size = _limit = 0
    _stalled_reader = None

    def __init__(self) -> None:  # without aiohttp's, whose deque takes 0.7 KB
        self.messages: list[Message] = []
        self.error: WebSocketError | None = None

    def feed_data(self, data: Message, size: int) -> None:
        self.messages.append(data)

    def set_exception(self, exc: BaseException, exc_cause: BaseException | None = None) -> None:
        self.error = exc if isinstance(exc, WebSocketError) else WebSocketError(1002, str(exc))


class MessageParser:
    """The parser of one connection. A message of `limit` bytes or more is an error."""

    control_header = 2
    """Bytes of a control frame in front of its data; a client's mask needs four more."""

    __slots__ = ("_completed", "_counted", "_heard", "_kept", "_meter", "_parser", "_receiver", "_room", "_unfinished")

    def __init__(self, receiver: Receiver, meter: Meter, limit: int) -> None:
        self._heard = False  # a message was read since the last `has_received`
        self._receiver = receiver
        self._meter = meter
        self._completed = Completed()
        parser = WebSocketReader(self._completed, limit, compress=False, decode_text=False)
        self._parser: WebSocketReader | None = parser
        self._kept = 0  # bytes that were read and wait to be parsed
        self._unfinished = 0  # bytes of the unfinished message
        self._counted = 0  # bytes that the meter counts
        self._room = sys.maxsize  # bytes that the peer may still send

    def feed_data(self, data: bytes) -> Sequence[Message]:
        """Parse what was read, pass on the messages that it completes, and return them."""
        self._room -= len(data)
        if self._room < 0:
            self._receiver.abort()
            return ()
        if self._parser is None:
            return ()
        self._parser.feed_data(data)
        completed = self._completed
        messages = completed.messages
        self._unfinished += len(data)
        if messages:
            completed.messages, self._heard = [], True
            if messages[-1].type in DATA or not DATA.isdisjoint(map(TYPE, messages)):
                self._unfinished = 0
            else:  # idle peers answer our pings for months
                self._unfinished -= self._size_of_control(messages)
        if self._unfinished or self._counted:
            self._count()
        if messages:
            self._receiver.messages_received(messages)
        if completed.error is not None:
            self._end(completed.error)
        return messages

    def has_received(self) -> bool:
        """Return True if a message was read since the last call."""
        heard, self._heard = self._heard, False
        return heard

    def feed_eof(self) -> None:
        """End the stream: the connection is lost."""
        self._end(None)

    def close(self) -> None:
        """Abort the connection if the peer sends much more: nothing is expected but its close frame."""
        self._room = min(self._room, CLOSING_MAX)

    def discard(self) -> None:
        """Drop all that was received, and what still arrives."""
        self._drop()

    def _end(self, error: WebSocketError | None) -> None:
        """Stop reading, and report the end of the stream to the receiver once."""
        if self._parser is not None:
            self._drop()
            self._receiver.stream_ended(error)

    def _fail(self, error: Exception) -> None:
        """Disconnect the peer: a part of what it sent was not parsed."""
        log.error("parsing failed, disconnecting the peer", exc_info=error)
        self._receiver.abort()

    def _drop(self) -> None:
        self._parser = None
        self._kept = self._unfinished = 0
        if self._counted:
            self._meter.add(-self._counted)
            self._counted = 0

    def _size_of_control(self, messages: Sequence[Message]) -> int:
        """Return the bytes of these pings and pongs, with their headers."""
        return sum([self.control_header + len(message.data) for message in messages if message.type in PINGS])

    def _count(self) -> None:
        held = self._kept + self._unfinished
        change = held - self._counted
        if self._parser is not None and (not -STEP < change < STEP):
            self._counted = held
            self._meter.add(change)
