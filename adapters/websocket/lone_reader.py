"""Push a dialled server's message that comes alone, as tokens do, to the sink without aiohttp's parser.

Parsing such a message, and noting it as complete, costs more than all else that is done to read it. So this reader
looks at the read first. A message is pushed only while the parser is between two messages. A read shows that if it is
one whole frame, and if the parser makes the message of just this frame from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dragoman.adapters.meter import Meter
from dragoman.adapters.websocket.message_parser import Hearer, Message, MessageParser

FINAL_TEXT = 0x81


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


class LoneReader(MessageParser):
    """The parser of a connection to a server. `push` gets a frame of at most `max_message` bytes that comes alone."""

    __slots__ = ("_between", "_max_message", "_push")

    def __init__(
        self, hearer: Hearer, meter: Meter, limit: int, push: Callable[[Sequence[bytes]], None], max_message: int
    ) -> None:
        super().__init__(hearer, meter, limit)
        self._push = push
        self._max_message = max_message
        self._between = False  # the parser holds no part of a message

    def feed_data(self, data: bytes) -> Sequence[Message]:
        """Push a message that comes alone, or parse what was read."""
        message = lone_text(data) if self._between else None
        if message is not None and len(message) <= self._max_message:
            self._heard = True
            self._push((message,))
            return ()
        messages = super().feed_data(data)
        self._between = len(messages) == 1 and lone_text(data) == messages[0].data
        return messages

    def close(self) -> None:
        super().close()
        self._push = _drop

    def discard(self) -> None:
        super().discard()
        self._push = _drop


def _drop(_frames: Sequence[bytes]) -> None:
    """Drop frames: the connection is about to close."""
