"""Push a dialled server's message that comes alone, as tokens do, to the sink in the call that read it.

aiohttp would parse it, queue it, and wake a task with a future, which costs more than a token does. So this reader is
the protocol of the connection in the place of aiohttp's own, and gives it all other data. A message is pushed only
while the parser is `between` two messages and none of them waits. A read shows that if it is one whole frame, and if
the parser makes the message of just this frame from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from dragoman.adapters.meter import Meter
from dragoman.adapters.websocket.metered import MeteredReader

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


def _refuse(_message: bytes) -> bool:
    """Take no message: the connection is about to close."""
    return False


class LoneReader(MeteredReader, asyncio.Protocol):
    """The parser and the protocol of a connection to a server. `push` returns False if the task must read a message."""

    __slots__ = ("_between", "_messages", "_push")

    def __init__(self, protocol: Any, socket: Any, meter: Meter, push: Callable[[bytes], bool]) -> None:
        super().__init__(protocol, socket, meter)
        self._push = push
        self._between = False  # the parser holds no part of a message
        self._messages = self._queue._buffer  # noqa: SLF001  # as metered.py says
        protocol.transport.set_protocol(self)

    def data_received(self, data: bytes) -> None:
        if self._between and not self._messages:
            message = lone_text(data)
            if message is not None and self._push(message):
                return
        known = len(self._messages)
        self._protocol.data_received(data)
        self._between = len(self._messages) == known + 1 and lone_text(data) == self._messages[-1][0].data

    def close(self, abort: Callable[[], None]) -> None:
        """Drop the messages that wait, and push none; `abort` the connection if the peer sends many more."""
        super().close(abort)
        self._push = _refuse

    def discard(self) -> None:
        """Drop all that was received, and what still arrives."""
        super().discard()
        self._socket._parser = None  # noqa: SLF001  # it is the last that holds the unfinished message
        self._push = _refuse

    # -- for aiohttp's protocol ------------------------------------------------------------------------

    def eof_received(self) -> None:
        self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()
