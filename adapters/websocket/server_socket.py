"""The WebSocket of a client: its messages, our pongs, and the closing handshake of both sides (RFC 6455, section 7)."""

from __future__ import annotations

import asyncio
import contextlib

import structlog
from aiohttp import EofStream, WSCloseCode, WSMessage, WSMsgType
from aiohttp._websocket.reader import WebSocketDataQueue  # the only queue that aiohttp's parser in C accepts
from aiohttp.http_websocket import (
    WS_CLOSED_MESSAGE,
    WS_CLOSING_MESSAGE,
    WebSocketError,
    WebSocketReader,
    WSMessageTextBytes,
)

from dragoman.adapters.websocket.connection import Connection
from dragoman.adapters.websocket.frames import close_frame, pong_frame
from dragoman.adapters.websocket.transport import REASON_SIZE, BatchWriter, address

log = structlog.get_logger("dragoman.link")

CODE_MAX = 4999  # of a close frame (RFC 6455, section 7.4.2)
QUEUED_MAX = 256 * 1024  # bytes of messages that wait: one full read. Above twice as many, the connection is not read


class ServerSocket:
    """The messages of a client, which aiohttp parses, and the control frames that answer them.

    The names are those of aiohttp's socket of the client side.
    """

    __slots__ = ("_deadline", "_peer_closed", "_reader", "_tcp", "_writer", "closed")

    def __init__(
        self, connection: Connection, tcp: asyncio.Transport, writer: BatchWriter, hard_limit: int, deadline: float
    ) -> None:
        self._tcp = tcp
        self._writer = writer
        self._deadline = deadline
        self._peer_closed = False
        self.closed = False
        """True once the closing handshake has begun."""
        self._reader = WebSocketDataQueue(connection, QUEUED_MAX, loop=asyncio.get_running_loop())
        connection.use_parser(WebSocketReader(self._reader, hard_limit, compress=False, decode_text=False))

    async def receive(self) -> WSMessage | WSMessageTextBytes:
        """Return the next message, ping or pong; return WS_CLOSED_MESSAGE at the end, after the closing handshake."""
        if self.closed:
            return WS_CLOSED_MESSAGE
        code, reason = WSCloseCode.OK, ""
        try:
            message = await self._reader.read()
        except EofStream:
            self._peer_closed = True
        except WebSocketError as error:
            code, reason = WSCloseCode(error.code), str(error)
        else:
            if message.type is not WSMsgType.CLOSE:
                return message
            self._peer_closed = True
            if message.data == WSCloseCode.ABNORMAL_CLOSURE or message.data > CODE_MAX:  # aiohttp accepts these
                code, reason = WSCloseCode.PROTOCOL_ERROR, f"no peer may send the close code {message.data}"
        if reason:
            peer = address(self._tcp.get_extra_info("peername"))
            log.info("invalid WebSocket frame, disconnecting the client", peer=peer, code=int(code), reason=reason)
        await self.close(code=code, message=reason.encode()[:REASON_SIZE])
        return WS_CLOSED_MESSAGE

    async def pong(self, data: bytes) -> None:
        """Answer a ping; raise ConnectionError if the peer is gone."""
        await self._writer.write(pong_frame(data))

    async def close(self, *, code: int, message: bytes = b"") -> None:
        """Do the closing handshake within the deadline, and close the connection."""
        if self.closed:
            return
        self.closed = True
        try:
            with contextlib.suppress(TimeoutError, ConnectionError, EofStream, WebSocketError):
                async with asyncio.timeout(self._deadline):
                    await self._writer.write(close_frame(code, message))
                    await self._wait_for_close()
        finally:
            self._tcp.close()

    async def _wait_for_close(self) -> None:
        """Drop the messages of the peer up to its close frame."""
        if not self._peer_closed:
            self._reader.feed_data(WS_CLOSING_MESSAGE, 0)  # ends a `receive` that waits
            while (await self._reader.read()).type is not WSMsgType.CLOSE:
                pass
