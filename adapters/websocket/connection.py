"""Connections that pass the bytes that they read to a parser, and report their end to the WebSocket transport."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from aiohttp.base_protocol import BaseProtocol

from dragoman.adapters.websocket.metered_tls import MeteredTls
from dragoman.adapters.websocket.transport import WebSocketTransport


class InputParser(Protocol):
    """A parser of the bytes that a peer sends: of its request, or of WebSocket frames."""

    def feed_data(self, data: bytes) -> object:
        """Parse the bytes of one read."""

    def feed_eof(self) -> None:
        """End the input: no further bytes come."""


class Connection(BaseProtocol):
    """A connection, with TLS or without, that passes the bytes that it reads to its parser.

    aiohttp's class has the flow control of what is written.
    """

    __slots__ = ("_input", "_websocket")

    def __init__(self) -> None:
        super().__init__(asyncio.get_running_loop())
        self._upgraded = True  # for aiohttp: pausing means to pause the transport, and no parser of HTTP
        self._input: InputParser | None = None
        self._websocket: WebSocketTransport | None = None  # what the handshake made of this connection

    def start(self, tcp: asyncio.Transport, parser: InputParser) -> None:
        """Read from this transport with this parser; the options of its socket are set already."""
        self.transport, self._input = tcp, parser

    def open_websocket(self, websocket: WebSocketTransport, tcp: asyncio.Transport, parser: InputParser) -> None:
        """Use the transport that the handshake made, and its parser."""
        self._websocket, self.transport, self._input = websocket, tcp, parser

    def data_received(self, data: bytes) -> None:
        if self._input is not None:
            self._input.feed_data(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        parser, self._input = self._input, None
        if parser is not None:
            parser.feed_eof()
        websocket, self._websocket = self._websocket, None  # no cycle is left for the garbage collector
        if websocket is not None:
            websocket.lost()


class AcceptedConnection(Connection):
    """A connection that a listener accepted; `lost` is called with it once it is lost."""

    __slots__ = ("_lost", "_tls", "peer", "refusal")

    def __init__(self, peer: str, refusal: str, lost: Callable[[AcceptedConnection], None]) -> None:
        super().__init__()
        self._lost = lost
        self.peer = peer
        self.refusal = refusal
        """The reason why there is no room for this connection; empty if it counts."""
        self._tls: MeteredTls | None = None  # decrypts this connection until the end of the WebSocket handshake

    def decrypt_with(self, tls: MeteredTls) -> None:
        """Note the protocol that decrypts this connection."""
        self._tls = tls

    def open_websocket(self, websocket: WebSocketTransport, tcp: asyncio.Transport, parser: InputParser) -> None:
        """Use the transport that the handshake made; its meter counts what waits to be decrypted."""
        super().open_websocket(websocket, tcp, parser)
        if self._tls is not None:
            self._tls.count_with(websocket.meter)
            self._tls = None

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._tls = None  # no cycle is left for the garbage collector
        self._lost(self)
