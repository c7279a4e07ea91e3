"""Parse what a server sends. A message that comes alone, as tokens do, is pushed to the sink without aiohttp's parser.

Parsing such a message, and noting it as complete, costs more than all else that is done to read it. So this reader
looks at the read first. A message is pushed only while the parser is between two messages. That is known
after a read of one whole frame from which the parser made a message with the same text.

A large read is parsed in pieces, each in an iteration of the event loop: it may have 131,072 pings. A piece grows until
it has about PIECE_MESSAGES messages, because each of many connections parses one in the same iteration. The connection
is not read meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from dragoman.adapters.base import do_nothing
from dragoman.adapters.meter import Meter
from dragoman.adapters.websocket.message_parser import Message, MessageParser, Receiver

FINAL_TEXT = 0x81
PIECE = 8 * 1024  # bytes that are parsed at once: some 60 tokens, or 4,096 pings, which take 3 to 5 ms
FIRST_PIECE = 512  # bytes of the first piece: 256 pongs
PIECE_MESSAGES = 256


def lone_text(data: bytes) -> bytes | None:
    """Return the text message of a server, if the data is exactly one whole unmasked frame of fewer than 64 KiB."""
    size = len(data)
    if size < 2 or data[0] != FINAL_TEXT:
        return None
    if data[1] < 126:
        return data[2:] if size == data[1] + 2 else None
    if data[1] == 126 and size >= 4 and size == (data[2] << 8 | data[3]) + 4:
        return data[4:]
    return None


class ServerReader(MessageParser):
    """The parser of a connection to a server. `push` gets a frame of at most `max_message` bytes that comes alone."""

    __slots__ = ("_between", "_ends", "_max_message", "_piece", "_push", "_rest")

    def __init__(
        self, receiver: Receiver, meter: Meter, limit: int, push: Callable[[Sequence[bytes]], None], max_message: int
    ) -> None:
        super().__init__(receiver, meter, limit)
        self._push = push
        self._max_message = max_message
        self._between = False  # the parser holds no part of a message
        self._piece = FIRST_PIECE  # bytes
        self._rest = b""  # bytes that wait for the next iteration
        self._ends = False  # the stream ends after it

    def feed_data(self, data: bytes) -> Sequence[Message]:
        """Push a message that comes alone, or parse what was read."""
        message = lone_text(data) if self._between else None
        if message is not None and len(message) <= self._max_message:
            self._heard = True
            self._push((message,))
            return ()
        if self._rest or len(data) > PIECE:
            self._parse_later(data)
            return ()
        messages = super().feed_data(data)
        self._between = len(messages) == 1 and lone_text(data) == messages[0].data
        return messages

    def feed_eof(self) -> None:
        """End the stream after the bytes that wait."""
        if self._rest:
            self._ends = True
        else:
            super().feed_eof()

    def close(self) -> None:
        super().close()
        self._push = do_nothing

    def discard(self) -> None:
        super().discard()
        self._push, self._rest = do_nothing, b""

    def _parse_later(self, data: bytes) -> None:
        """Parse a large read, and what comes after it, in pieces: the first one now."""
        self._between = False
        waits = bool(self._rest)
        self._rest += data
        self._kept = len(self._rest)
        if not waits:
            self._receiver.hold(waits=True)
            self._parse_piece()
        self._count()

    def _parse_piece(self) -> None:
        piece, self._rest = self._rest[: self._piece], self._rest[self._piece :]
        self._kept = len(self._rest)
        try:
            found = len(super().feed_data(piece))
        except Exception as error:  # noqa: BLE001  # no caller is above an iteration of the event loop
            self._fail(error)
            return
        self._piece = max(FIRST_PIECE, min(PIECE, 2 * self._piece, self._piece * PIECE_MESSAGES // max(found, 1)))
        if self._rest:
            asyncio.get_running_loop().call_soon(self._parse_piece)
        else:
            self._receiver.hold(waits=False)
            if self._ends:
                super().feed_eof()
