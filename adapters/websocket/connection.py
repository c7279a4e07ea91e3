"""The protocol of a connection that a WebSocket listener accepted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from aiohttp.base_protocol import BaseProtocol

from dragoman.adapters.websocket.metered_tls import MeteredTls
from dragoman.adapters.websocket.transport import WebSocketTransport


class InputParser(Protocol):
    """A parser of the bytes that a client sends: first of its request, then of WebSocket frames."""

    def feed_data(self, data: bytes) -> object:
        """Parse the bytes of one read."""

    def feed_eof(self) -> None:
        """End the input: no further bytes come."""


class Connection(BaseProtocol):
    """A connection, with TLS or without. Its parser first reads a request, and then the frames of a WebSocket.

    The parser bears the name that aiohttp's protocols give it (dragoman.adapters.websocket.metered). `lost` is called
    with the connection once it is lost. aiohttp's class has the flow control of both directions.
    """

    __slots__ = ("_lost", "_payload_parser", "_tls", "_websocket", "peer", "refusal")

    def __init__(self, peer: str, refusal: str, lost: Callable[[Connection], None]) -> None:
        super().__init__(asyncio.get_running_loop())
        self._upgraded = True  # for aiohttp: pausing means to pause the transport, and no parser of HTTP
        self._payload_parser: InputParser | None = None
        self._lost = lost
        self.peer = peer
        self.refusal = refusal
        """The reason why there is no room for this connection; empty if it counts."""
        self._tls: MeteredTls | None = None  # decrypts this connection until the end of the WebSocket handshake
        self._websocket: WebSocketTransport | None = None  # what the handshake made of this connection

    def decrypt_with(self, tls: MeteredTls) -> None:
        """Note the protocol that decrypts this connection."""
        self._tls = tls

    def start(self, tcp: asyncio.Transport, parser: InputParser) -> None:
        """Read the request from this transport; the options of its socket are set already."""
        self.transport, self._payload_parser = tcp, parser

    def open_websocket(self, websocket: WebSocketTransport) -> None:
        """Use the transport that the handshake made; its meter counts what waits to be decrypted."""
        self._websocket = websocket
        if self._tls is not None:
            self._tls.count_with(websocket.meter)
            self._tls = None

    def use_parser(self, parser: InputParser) -> None:
        """Give what is read from now on to this parser."""
        self._payload_parser = parser

    def data_received(self, data: bytes) -> None:
        if self._payload_parser is not None:
            self._payload_parser.feed_data(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        parser, self._payload_parser = self._payload_parser, None
        if parser is not None:
            parser.feed_eof()
        websocket, self._websocket, self._tls = self._websocket, None, None  # nothing is freed in a cycle
        if websocket is not None:
            websocket.lost()
        self._lost(self)
