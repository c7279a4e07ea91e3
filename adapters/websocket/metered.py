"""Count what aiohttp holds of a peer's messages: the unfinished one, and those that nobody has read yet.

aiohttp's parser keeps an unfinished message where Python cannot see it. So this wrapper counts the bytes that the
parser was fed since the last complete message.

It also ends a flood. While aiohttp closes a connection it reads all messages up to the peer's close frame, in one step
of the event loop. So `close` drops those that wait, and aborts the connection of a peer that goes on sending.

    MeteredReader     parses and counts what was read
    ClientReader      takes turns with other clients, and bounds control frames and fragments (client_reader.py)
    LoneReader        pushes a server's message that comes alone (lone_reader.py)

It depends on a few semi-private names of aiohttp's protocol, socket and queue.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice
from typing import Any

from aiohttp import WSMsgType

from dragoman.adapters.base import do_nothing
from dragoman.adapters.meter import STEP, Meter

NOTHING = (False, b"")  # what a parser returns if the stream goes on
CLOSING_MAX = 64 * 1024  # bytes that a peer may send after our close frame: 5 ms of tiny messages, and usually none
MESSAGES = (WSMsgType.TEXT, WSMsgType.BINARY)


class MeteredReader:
    """The parser of one connection, in the place of aiohttp's own."""

    __slots__ = (
        "_abort",
        "_kept",
        "_meter",
        "_parser",
        "_protocol",
        "_queue",
        "_room",
        "_socket",
        "_stalled",
        "_unfinished",
        "counted",
    )

    def __init__(self, protocol: Any, socket: Any, meter: Meter) -> None:
        self.counted = 0
        """Bytes that the meter counts for the parser and its queue."""
        self._socket = socket
        self._parser = protocol._payload_parser  # noqa: SLF001  # as the module says
        self._queue = socket._reader  # noqa: SLF001  # as above
        self._meter = meter
        self._protocol = protocol
        self._kept = 0  # bytes that were read and wait to be parsed
        self._unfinished = 0
        self._room = sys.maxsize  # bytes that the peer may still send
        self._abort: Callable[[], None] = do_nothing
        self._stalled = False  # the parser keeps complete messages back until the queue was read
        protocol._payload_parser = self  # noqa: SLF001  # as above

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Parse what was read, as aiohttp's own parser does."""
        self._room -= len(data)
        if self._room < 0:
            self._abort()
            return NOTHING
        if self._parser is None:
            return NOTHING
        queue = self._queue
        messages = queue._buffer  # noqa: SLF001  # as the module says
        known = len(messages)
        result: tuple[bool, bytes] = self._parser.feed_data(data)
        self._unfinished += len(data)
        if len(messages) > known and (messages[-1][0].type in MESSAGES or self._has_message(known)):
            self._unfinished = 0
        if self._unfinished or self.counted or queue._size >= STEP:  # noqa: SLF001  # else nothing is held for long
            self._stalled = queue._stalled_reader is not None  # noqa: SLF001  # as the module says
            self._count()
        return result

    def feed_eof(self) -> None:
        """End the stream, as aiohttp's own parser does."""
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
        self._queue._buffer.clear()  # noqa: SLF001  # as the module says
        self._meter.add(-self.counted)
        self.counted = 0

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
