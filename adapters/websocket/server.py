"""The server side of WebSocket: a port that upgrades requests at one path.

A connection counts from its accept, before TLS and before its request. One too many is closed at once, except for a few
that are kept until they have got the status 503.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Callable
from typing import cast

from dragoman.adapters.base import BACKLOG, Accept, TransportLimits
from dragoman.adapters.host_names import is_address
from dragoman.adapters.listening import bind_host, close_server
from dragoman.adapters.websocket.client_reader import ClientReader
from dragoman.adapters.websocket.connection import AcceptedConnection
from dragoman.adapters.websocket.frames import OF_SERVER
from dragoman.adapters.websocket.handshake import Handshake, HandshakeRules, Opened
from dragoman.adapters.websocket.metered_tls import MeteredTls, make_tls
from dragoman.adapters.websocket.request_check import RequestCheck
from dragoman.adapters.websocket.tls import ServerTls
from dragoman.adapters.websocket.transport import HARD_LIMIT, BatchWriter, WebSocketTransport, address

REFUSING_MAX = 16  # refused connections that may wait for their status 503: half of the descriptors in reserve


class _Accepted(asyncio.Protocol):
    """The first protocol of a connection: it reports the accept, which comes before TLS, to the listener."""

    def __init__(self, accepted: Callable[[asyncio.Transport], None]) -> None:
        self._accepted = accepted

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._accepted(cast(asyncio.Transport, transport))  # uvloop's transport does not inherit from it


class WebSocketListener:
    """A listening port that upgrades at one path; created by `listen`."""

    address = ""
    is_reachable = True

    def __init__(self, path: str, limits: TransportLimits, rules: HandshakeRules) -> None:
        self._path = path
        self._limits = limits
        self._callbacks = rules.callbacks
        self._tls = rules.tls
        self._check = RequestCheck(path, rules.origins, rules.hosts)
        self._shaking: set[AcceptedConnection] = set()  # connections before the end of their WebSocket handshake
        self._encrypting: set[socket.socket] = set()  # connections in their TLS handshake
        self._refused = 0  # connections that wait for their status 503
        self._servers: list[asyncio.Server] = []

    async def start(self, host: str, port: int, inherited: socket.socket | None = None) -> None:
        """Bind, or take an inherited socket, and accept; raise OSError if the address is not available."""
        if inherited is not None:
            sockets = [inherited]
        elif is_address(host):  # no name server is asked
            sockets = bind_host(host, port)
        else:
            sockets = await asyncio.to_thread(bind_host, host, port)
        for listening in sockets:
            for level, option in ((socket.SOL_SOCKET, socket.SO_KEEPALIVE), (socket.IPPROTO_TCP, socket.TCP_NODELAY)):
                listening.setsockopt(level, option, 1)  # its connections inherit it
            server = await asyncio.get_running_loop().create_server(
                lambda: _Accepted(self._accepted), sock=listening, backlog=BACKLOG
            )
            self._servers.append(server)
        scheme = "ws" if self._tls is None else "wss"
        self.address = f"{scheme}://{address(sockets[0].getsockname())}{self._path}"

    @property
    def certificate_end(self) -> float | None:
        return self._tls.certificate_end if self._tls is not None else None

    async def close(self) -> None:
        for server in self._servers:
            await close_server(server)
        for connection in list(self._shaking):
            if connection.transport is not None:
                connection.transport.close()
        for encrypting in self._encrypting:
            with contextlib.suppress(OSError):  # it has just ended
                encrypting.shutdown(socket.SHUT_RDWR)

    def _accepted(self, tcp: asyncio.Transport) -> None:
        """Count a new connection and begin its handshake, or close it."""
        peer = address(tcp.get_extra_info("peername"))
        refusal = self._callbacks.connect(peer)
        if refusal:
            if self._refused >= REFUSING_MAX:
                tcp.abort()
                return
            self._refused += 1
        connection = AcceptedConnection(peer, refusal, self._lost)
        if self._tls is None:
            tcp.set_protocol(connection)
            self._begin_handshake(connection, tcp)
        else:
            # `start_tls` would be too late: uvloop reads the peer's hello before it. So TLS gets its own transport.
            raw = _detached(tcp)
            self._encrypting.add(raw)
            self._callbacks.spawn(self._encrypt(raw, connection, self._tls), f"{peer}:tls")

    async def _encrypt(self, raw: socket.socket, connection: AcceptedConnection, tls: ServerTls) -> None:
        """Do the TLS handshake of a connection, then begin its WebSocket handshake."""

        def encrypted(tcp: asyncio.Transport) -> None:
            tcp.set_protocol(connection)
            self._begin_handshake(connection, tcp)

        loop = asyncio.get_running_loop()
        shaken: asyncio.Future[None] = loop.create_future()
        protocol = make_tls(
            loop,
            _Accepted(encrypted),
            tls.newest_context(),
            shaken,
            server_side=True,
            ssl_handshake_timeout=self._limits.handshake_deadline,
            ssl_shutdown_timeout=self._limits.close_deadline,
        )
        metered = MeteredTls(protocol, self._callbacks.work, shaken.done)
        connection.decrypt_with(metered)
        try:
            await _connect_encrypted(metered, raw, shaken)
            if connection.transport is None:
                raise ConnectionResetError
        except OSError as error:  # the peer went away, was too slow, or does not speak our TLS
            if isinstance(error, ssl.SSLError):  # an operator may have a wrong authority; each peer may just leave
                cause = getattr(error, "verify_message", "") or error.reason or "the handshake failed"
                self._callbacks.bad_request(f"TLS: {cause}")
            connection.connection_lost(error)
        finally:
            self._encrypting.discard(raw)

    def _begin_handshake(self, connection: AcceptedConnection, tcp: asyncio.Transport) -> None:
        """Begin the handshake of a connection, with TLS or without."""
        self._shaking.add(connection)
        deadline = self._limits.handshake_deadline
        connection.start(tcp, Handshake(connection, tcp, self._callbacks, self._check, self._open, deadline))

    def _open(self, opened: Opened, accept: Accept) -> None:
        """Make an accepted connection a WebSocket, and give it to `accept`."""
        connection, tcp, limits = opened.connection, opened.tcp, self._limits
        self._shaking.discard(connection)
        transport = WebSocketTransport(tcp, BatchWriter(connection, tcp, OF_SERVER), limits, opened.headers)
        limit = HARD_LIMIT * limits.max_message
        parser = ClientReader(transport, transport.meter, limit, self._callbacks.work)
        transport.use_parser(parser)
        connection.open_websocket(transport, tcp, parser)
        if opened.early:
            connection.data_received(opened.early)
        accept(transport)

    def _lost(self, connection: AcceptedConnection) -> None:
        self._shaking.discard(connection)
        if connection.refusal:
            self._refused -= 1
        else:
            self._callbacks.disconnect(connection.peer)


async def listen(
    host: str,
    port: int,
    path: str,
    limits: TransportLimits,
    rules: HandshakeRules,
    inherited: socket.socket | None = None,
) -> WebSocketListener:
    """Listen at ws://host:port/path, where the OS chooses port 0, or on an `inherited` socket that is bound there."""
    listener = WebSocketListener(path, limits, rules)
    await listener.start(host, port, inherited)
    return listener


async def _connect_encrypted(tls: MeteredTls, raw: socket.socket, shaken: asyncio.Future[None]) -> None:
    """Serve a socket over TLS, and return once its handshake is done; raise OSError if that fails."""
    tcp, _ = await asyncio.get_running_loop().connect_accepted_socket(lambda: tls, raw)
    try:
        await shaken
    except BaseException:
        tcp.abort()
        raise


def _detached(tcp: asyncio.Transport) -> socket.socket:
    """Return the socket of a transport that has read nothing, and close the transport."""
    try:
        detached = socket.socket(fileno=os.dup(tcp.get_extra_info("socket").fileno()))
    finally:
        tcp.abort()
    detached.setblocking(False)
    return detached
