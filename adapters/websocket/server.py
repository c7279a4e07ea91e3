"""The server side of WebSocket: a port that upgrades requests at one path.

The handshake refuses any other request with one line of text that says what would be right. A web page may open a
WebSocket to 127.0.0.1, and its browser sends the page's origin. An Origin that is neither loopback nor allowed by name
is refused. A page may also reach 127.0.0.1 by a name of its own (DNS rebinding): then its browser sends that name as
Host, which is refused unless it is allowed. A client may have to present a bearer token, in the header `Authorization`
or, because browsers cannot set it, in the query (`?token=`). No text and no log line contains the query.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web
from msgspec import Struct

from dragoman.adapters.base import BACKLOG, Accept, PeerFacts, TransportLimits
from dragoman.adapters.closing import close_server
from dragoman.adapters.websocket.frames import PING, text_frames
from dragoman.adapters.websocket.tls import ServerTls, subject_of
from dragoman.adapters.websocket.transport import (
    HARD_LIMIT,
    BatchWriter,
    FrameWriter,
    ServerSocket,
    WebSocketTransport,
    address,
)

__all__ = ["Handshakes", "WebSocketListener", "listen"]

RETRY_AFTER = "1"  # seconds: `connection_rate` counts by the second, and a client of a full gateway loses little
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Handshakes(Struct, frozen=True, kw_only=True):
    """The rules by which a listener accepts a handshake.

    `admit` returns what accepts a peer, or why it is not authenticated: such a peer gets the status 401. `origins` are
    allowed in addition to loopback; `*` allows every origin. `hosts` are the names by which clients reach the listener,
    in addition to IP addresses and `localhost`; `*` allows every name. `full` returns why a peer of this address is not
    accepted now, or "": such a peer gets the status 503. `tls` makes it a listener for `wss:`.
    """

    admit: Callable[[PeerFacts], Awaitable[Accept | str]]
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    full: Callable[[str], str] = lambda _peer: ""
    tls: ServerTls | None = None


class WebSocketListener:
    """A listening port that upgrades at one path; created by `listen`.

    aiohttp runs `_answer` for each request and cancels it when the connection is lost (`handler_cancellation`). So the
    handler of a WebSocket lives exactly as long as its connection.
    """

    address = ""

    def __init__(self, path: str, limits: TransportLimits, rules: Handshakes) -> None:
        self._path = path
        self._limits = limits
        self._rules = rules
        self._origins = tuple(origin.rstrip("/").lower() for origin in rules.origins)
        self._hosts = frozenset(host.lower() for host in rules.hosts)
        self._upgraded: set[object] = set()
        self._http = web.Server(
            self._answer,
            handler_cancellation=True,
            access_log=None,
            keepalive_timeout=limits.handshake_deadline,
        )
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int, inherited: socket.socket | None = None) -> None:
        """Bind, or take an inherited socket, and accept; raise OSError if the address is not available."""
        tls = self._rules.tls
        place: dict[str, Any] = {"host": host, "port": port} if inherited is None else {"sock": inherited}
        self._server = await asyncio.get_running_loop().create_server(
            self._http,
            **place,
            backlog=BACKLOG,
            ssl=tls.context if tls is not None else None,
            ssl_handshake_timeout=self._limits.handshake_deadline if tls is not None else None,
            ssl_shutdown_timeout=self._limits.close_deadline if tls is not None else None,
        )
        self.address = (
            f"{'ws' if tls is None else 'wss'}://{address(self._server.sockets[0].getsockname())}{self._path}"
        )

    async def close(self) -> None:
        if self._server is not None:
            await close_server(self._server)
        for connection in self._http.connections:
            if connection not in self._upgraded:  # an idle HTTP client would keep its task until the deadline
                connection.force_close()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        batched = BatchWriter.possible(request.protocol)
        socket: ServerSocket = web.WebSocketResponse(
            timeout=self._limits.close_deadline,
            autoping=False,
            compress=False,
            decode_text=False,
            max_msg_size=HARD_LIMIT * self._limits.max_message,
            writer_limit=self._limits.send_high if batched else 0,  # 0: aiohttp checks back-pressure at each message
        )
        refusal = self._refusal(request, socket)
        if refusal is not None:
            return refusal
        accept = await self._rules.admit(_facts(request))
        if isinstance(accept, str):
            return _unauthorized(accept, presented=bool(_token(request)))
        try:
            await socket.prepare(request)
        except ConnectionError:
            return socket  # the peer went away: aiohttp would log a traceback for it
        tcp = request.transport
        if tcp is None:
            return socket  # the peer went away during the handshake
        writer = BatchWriter(request.protocol, tcp, text_frames, PING) if batched else FrameWriter(socket, PING)
        transport = WebSocketTransport(socket, tcp, writer, self._limits)
        transport.count(request.protocol)
        self._upgraded.add(request.protocol)
        try:
            accept(transport)
            await asyncio.get_running_loop().create_future()
        finally:
            self._upgraded.discard(request.protocol)
            transport.lost()
        return socket

    def _refusal(self, request: web.BaseRequest, socket: ServerSocket) -> web.Response | None:
        if request.path != self._path:
            return _text(404, f"nothing at {request.path!r}: open a WebSocket at {self._path}")
        host = request.headers.get("Host")
        if host is not None and not self._is_ours(host):
            hint = "?host=gateway.example (or * for all)"
            return _text(403, f"host {host!r} is not allowed: add {hint} to the listener's endpoint")
        origin = request.headers.get("Origin")
        if origin is not None and not self._allows(origin):
            hint = "?origin=https://app.example (or * for all)"
            return _text(403, f"origin {origin!r} is not allowed: add {hint} to the listener's endpoint")
        if request.method != "GET" or not socket.can_prepare(request):
            refusal = _text(426, f"this is a WebSocket endpoint: open a WebSocket (version 13) at {self._path}")
            refusal.headers["Upgrade"] = "websocket"
            return refusal
        tcp = request.transport
        full = self._rules.full(address(tcp.get_extra_info("peername"))) if tcp is not None else ""
        if full:
            busy = _text(503, full)
            busy.headers["Retry-After"] = RETRY_AFTER
            return busy
        return None

    def _is_ours(self, host: str) -> bool:
        """Return True if a client may reach the listener under this name, which no foreign web page can choose."""
        try:
            name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
        except ValueError:
            return False
        return bool(self._hosts & {"*", name}) or name == "localhost" or _is_address(name)

    def _allows(self, origin: str) -> bool:
        if "*" in self._origins or origin.rstrip("/").lower() in self._origins:
            return True
        try:
            url = urlsplit(origin)
        except ValueError:
            return False
        return url.scheme in ("http", "https") and url.hostname in LOOPBACK


async def listen(
    host: str,
    port: int,
    path: str,
    limits: TransportLimits,
    rules: Handshakes,
    inherited: socket.socket | None = None,
) -> WebSocketListener:
    """Listen at ws://host:port/path, where the OS chooses port 0, or on an `inherited` socket that is bound there."""
    listener = WebSocketListener(path, limits, rules)
    await listener.start(host, port, inherited)
    return listener


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _facts(request: web.BaseRequest) -> PeerFacts:
    tcp = request.transport
    if tcp is None:
        return PeerFacts()
    name = tcp.get_extra_info("peername")
    subject = subject_of(tcp.get_extra_info("peercert"))
    return PeerFacts(address=address(name) if name else "", token=_token(request), certificate=subject)


def _token(request: web.BaseRequest) -> str:
    """Return the bearer token of a request; the header counts before the query."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else request.query.get("token", "")


def _unauthorized(text: str, *, presented: bool) -> web.Response:
    """Return the answer to a request without an accepted token (RFC 6750, section 3)."""
    refusal = _text(401, text)
    refusal.headers["WWW-Authenticate"] = 'Bearer realm="dragoman"' + (', error="invalid_token"' if presented else "")
    return refusal


def _text(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text + "\n")
