"""Count what aiohttp holds of a peer's messages: the unfinished one, and those that nobody has read yet.

aiohttp's parser keeps an unfinished message where Python cannot see it. So this wrapper counts the bytes that the
parser was fed since the last complete message.

A client's pings, fragments and parts of messages are parsed in pieces, in turns with those of the other clients: one
iteration of the event loop may read from all of them. What was read waits here, and the connection is not read
meanwhile. A whole message in one read is parsed at once, because its link takes turns.

It also ends a flood. While aiohttp closes a connection it reads all messages up to the peer's close frame, in one step
of the event loop. So `close` drops those that wait, and aborts the connection of a peer that goes on sending.

It depends on a few semi-private names of aiohttp; without them nothing is counted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import structlog
from aiohttp import WSMsgType
from aiohttp.http_websocket import WebSocketError

from dragoman.adapters.base import Work
from dragoman.adapters.meter import STEP, Meter
from dragoman.adapters.websocket.frame_counter import FrameCounter

log = structlog.get_logger("dragoman.link")

NOTHING = (False, b"")  # what a parser returns if the stream goes on
CLOSING_MAX = 64 * 1024  # bytes that a peer may send after our close frame: 5 ms of tiny messages, and usually none
FINAL_MESSAGES = (0x81, 0x82)
MESSAGES = (WSMsgType.TEXT, WSMsgType.BINARY)


def _keep_open() -> None:
    """Do not abort the connection: nothing is wrong with it."""


class MeteredReader:
    """The parser of one connection, in the place of aiohttp's own."""

    __slots__ = (
        "_abort",
        "_counter",
        "_kept",
        "_meter",
        "_parser",
        "_protocol",
        "_queue",
        "_room",
        "_socket",
        "_stalled",
        "_unfinished",
        "_work",
        "counted",
    )

    def __init__(
        self,
        protocol: Any,
        socket: Any,
        meter: Meter,
        counter: FrameCounter | None = None,
    ) -> None:
        self.counted = 0
        """Bytes that the meter counts for the parser and its queue."""
        self._socket = socket
        self._parser = protocol._payload_parser  # noqa: SLF001  # as the module says
        self._queue = socket._reader  # noqa: SLF001  # as above
        self._meter = meter
        self._counter = counter  # None for a server's frames
        self._protocol = protocol
        self._work: Work | None = None  # while data waits for its turn
        self._kept = 0  # bytes that wait for their turn
        self._unfinished = 0
        self._room = sys.maxsize  # bytes that the peer may still send
        self._abort = _keep_open
        self._stalled = False  # the parser keeps complete messages back until the queue was read
        protocol._payload_parser = self  # noqa: SLF001  # as above

    @staticmethod
    def possible(protocol: Any, socket: Any) -> bool:
        """Return True if this aiohttp has the names that this class depends on."""
        queue = getattr(socket, "_reader", None)
        has_names = hasattr(protocol, "_reading_paused") and hasattr(protocol, "_buffer_paused")
        return (
            has_names
            and getattr(protocol, "_payload_parser", None) is not None
            and hasattr(queue, "_buffer")
            and hasattr(queue, "_size")
        )

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Parse what was read, as aiohttp's own parser does."""
        self._room -= len(data)
        if self._room < 0:
            self._abort()
            return NOTHING
        if self._parser is None:
            return NOTHING
        counter = self._counter
        is_whole = (  # one final frame between two messages, as most reads are: a call for each would be felt
            counter is None
            or (
                counter.between
                and len(data) > 8
                and data[0] in FINAL_MESSAGES
                and data[1] != 255
                and len(data) == (data[1] - 122 if data[1] < 254 else (data[2] << 8 | data[3]) + 8)
            )
        )
        if counter is None or (is_whole and not self._kept):
            return self._parse(data)
        if self._work is None and counter.new_work is not None:
            self._work = counter.new_work(self._fail)
        self._kept += len(data)
        if self._work is None:
            for _units in self._parse_in_pieces(counter, data):
                pass
            return NOTHING
        self._work.add_work(self._parse_in_turn(self._work, counter, data))
        if self._kept:
            self._read_on(pause=True)
            self._count()
        return NOTHING

    def _parse_in_turn(self, work: Work, counter: FrameCounter, data: bytes) -> Iterator[None]:
        for units in self._parse_in_pieces(counter, data):
            work.count(units)
            if self._kept:
                yield
        if not self._kept:
            self._work = None  # it refers to us, and takes 0.8 KB of an idle connection, which answers our pings
            if self._parser is not None:
                self._read_on(pause=False)

    def _parse_in_pieces(self, counter: FrameCounter, data: bytes) -> Iterator[int]:
        """Parse what was read; yield the work (units) of each piece. End the stream at a frame that is not allowed."""
        at, size = 0, len(data)
        while at < size and self._parser is not None:
            end = counter.count_piece(data, at)
            self._kept -= end - at
            if end > at:
                self._parse(data if end - at == size else data[at:end])
            if counter.error is not None:
                self._kept -= size - end
                self._end_stream(counter.error)
            at = end
            yield counter.units

    def _parse(self, data: bytes) -> tuple[bool, bytes]:
        queue = self._queue
        messages = queue._buffer  # noqa: SLF001  # as the module says
        known = len(messages)
        result: tuple[bool, bytes] = self._parser.feed_data(data)
        self._unfinished += len(data)
        if len(messages) > known and (messages[-1][0].type in MESSAGES or self._has_message(known)):
            self._unfinished = 0
        if self._unfinished or self.counted or queue._size >= STEP:  # noqa: SLF001  # else nothing is held for long
            self._stalled = getattr(queue, "_stalled_reader", None) is not None
            self._count()
        return result

    def feed_eof(self) -> None:
        """End the stream, as aiohttp's own parser does, behind what waits for its turn."""
        if self._work is not None and self._kept:
            self._work.add_work(self._end_in_turn())
        elif self._counter is not None and self._counter.new_work is not None:
            self._counter.new_work(self._fail).end_link(self._end)
        else:
            self._end()

    def _end_in_turn(self) -> Iterator[None]:
        self._end()
        yield from ()

    def _end(self) -> None:
        if self._parser is not None:
            self._parser.feed_eof()

    def messages_read(self) -> None:
        """Count less after messages were read from the queue."""
        if self._stalled:  # the parser has gone on without us, and has completed what was unfinished
            self._stalled = False
            self._unfinished = 0
        self._count()

    def close(self, abort: Callable[[], None]) -> None:
        """Drop the messages that wait; `abort` the connection if the peer sends many more."""
        self._queue._buffer.clear()  # noqa: SLF001  # as the module says
        self._room, self._abort = min(self._room, CLOSING_MAX), abort

    def discard(self) -> None:
        """Drop all that was received, and what still arrives."""
        self._parser = None
        if self._work is not None:
            self._work.stop()
            self._work = None
        if getattr(self._socket, "_parser", None) is not None:
            self._socket._parser = None  # noqa: SLF001  # it is the last that holds the unfinished message
        self._queue._buffer.clear()  # noqa: SLF001  # as the module says
        self._meter.add(-self.counted)
        self.counted = 0

    def _fail(self, error: Exception) -> None:
        """Disconnect the peer: a part of what it sent was not parsed."""
        log.error("parsing failed, disconnecting the peer", exc_info=error)
        if self._protocol.transport is not None:
            self._protocol.transport.abort()

    def _read_on(self, *, pause: bool) -> None:
        """Stop reading, or read on unless aiohttp has stopped it as well."""
        tcp = self._protocol.transport
        if tcp is None or tcp.is_closing():
            return
        if pause:
            tcp.pause_reading()
        elif not (self._protocol._reading_paused or self._protocol._buffer_paused):  # noqa: SLF001  # as the module says
            tcp.resume_reading()

    def _end_stream(self, error: WebSocketError) -> None:
        """End the connection with the code of this error, as aiohttp does for its own; read nothing more."""
        self._parser = None
        self._read_on(pause=True)
        self._queue.set_exception(error)

    def _has_message(self, known: int) -> bool:
        """Return True if a message was completed behind the `known` ones."""
        added = islice(self._queue._buffer, known, None)  # noqa: SLF001  # as the module says
        return any(message.type in MESSAGES for message, _ in added)

    def _count(self) -> None:
        held = self._kept + self._unfinished + self._queue._size  # noqa: SLF001  # as the module says
        change = held - self.counted
        if self._parser is not None and not -STEP < change < STEP:
            self.counted = held
            self._meter.add(change)
