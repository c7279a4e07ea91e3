"""The server side of WebSocket: a port that upgrades requests at one path.

The handshake refuses any other request with one line of text that says what would be right. A web page may open a
WebSocket to 127.0.0.1, and its browser sends the page's origin. An Origin that is neither loopback nor allowed by name
is refused. A page may also reach 127.0.0.1 by a name of its own (DNS rebinding): then its browser sends that name as
Host, which is refused unless it is allowed. A client may have to present a bearer token, in the header `Authorization`
or, because browsers cannot set it, in the query (`?token=`). A request with two different tokens has none that counts.
No text and no log line contains the query.

A connection counts from its accept, before TLS and before its request. One too many is closed at once, except for a few
that are kept until they have got the status 503.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from ipaddress import ip_address
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from msgspec import Struct

from dragoman.adapters.base import BACKLOG, Accept, NewWork, PeerFacts, TransportLimits
from dragoman.adapters.closing import close_server
from dragoman.adapters.request_log import RequestLogger
from dragoman.adapters.websocket.frame_counter import FrameCounter
from dragoman.adapters.websocket.frames import PING, text_frames
from dragoman.adapters.websocket.tls import ServerTls, subject_of
from dragoman.adapters.websocket.transport import (
    HARD_LIMIT,
    BatchWriter,
    FrameWriter,
    WebSocketTransport,
    address,
)

VERSION = "13"  # of WebSocket: that of RFC 6455; aiohttp also accepts those of drafts
RETRY_AFTER = "1"  # seconds: `connection_rate` counts by the second, and a client of a full gateway loses little
TOLD = 16  # refused connections at once that are kept to be told why: half of the descriptors that are kept free
LOOPBACK = ("localhost", "127.0.0.1", "::1")
REQUEST_MAX = 512 * 1024  # bytes before the end of a handshake: two full reads, which may hold early messages, too


NO_TRACE: dict[str, str] = {}  # one for all clients that send none


class Handshakes(Struct, frozen=True, kw_only=True):
    """The rules by which a listener accepts a handshake.

    `admit` returns what accepts a peer, or why it is not authenticated: such a peer gets the status 401. `origins` are
    allowed in addition to loopback; `*` allows every origin. `hosts` are the names by which clients reach the listener,
    in addition to IP addresses and `localhost`; `*` allows every name. `connect` counts a connection of this peer, or
    returns why it is not accepted now; `disconnect` counts it no more. `bad_request` is called with the kind of
    each request that cannot be parsed. `tls` makes it a listener for `wss:`; `spawn` runs the TLS handshakes. `work`
    makes the work of a connection, by which what it sends is parsed in turns.
    """

    admit: Callable[[PeerFacts], Awaitable[Accept | str]]
    spawn: Callable[[Coroutine[Any, Any, None], str], object]
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    connect: Callable[[str], str] = lambda _peer: ""
    disconnect: Callable[[str], None] = lambda _peer: None
    bad_request: Callable[[str], None] = lambda _kind: None
    tls: ServerTls | None = None
    work: NewWork | None = None


class _HttpTransport:
    """The TCP connection as aiohttp sees it. aiohttp closes it after each response, except after `keep_open`."""

    __slots__ = ("_kept", "tcp")

    def __init__(self, tcp: asyncio.Transport) -> None:
        self.tcp = tcp
        self._kept = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tcp, name)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what is known of the connection, but no socket: the options that aiohttp would set are set already."""
        return default if name == "socket" else self.tcp.get_extra_info(name, default)

    def keep_open(self) -> None:
        """Ignore the next close."""
        self._kept = True

    def close(self) -> None:
        """Close the connection."""
        if self._kept:
            self._kept = False
        else:
            self.tcp.close()


class _Released(Struct, frozen=True):
    """The rest of a request that aiohttp needs after a handshake: it closes the transport."""

    transport: asyncio.Transport


class _Response(web.WebSocketResponse[Literal[False]]):
    """The response to a handshake. After `release`, aiohttp's handler may end and the WebSocket stays open."""

    _is_released = False
    _shaken: Any = None  # the result of `_handshake`, until `release`

    def _handshake(self, request: web.BaseRequest) -> Any:
        """Return what aiohttp finds in the request; it asks twice, and the answer takes 10 us.

        For each offer of subprotocols aiohttp would log up to 8 KiB that a peer wrote: it gets no offers.
        """
        if self._shaken is None:
            if "Sec-WebSocket-Protocol" in request.headers:
                headers = request.headers.copy()
                headers.popall("Sec-WebSocket-Protocol")
                request = request.clone(headers=headers)
            self._shaken = super()._handshake(request)
        return self._shaken

    def release(self, handler: RequestHandler, connection: _HttpTransport) -> None:
        """Let aiohttp end its two tasks, and free the request, the HTTP parser and its queue: 5 KB of an idle client.

        It depends on three private names of aiohttp. Where one is missing, that part is not freed.
        """
        self._is_released = True
        connection.keep_open()
        connection.tcp.set_protocol(handler)
        self.headers.clear()
        self._shaken = None
        self._req: Any = _Released(connection.tcp)
        for name, empty in (("_parser", None), ("_messages", ())):
            if hasattr(handler, name):
                setattr(handler, name, empty)

    async def write_eof(self) -> None:  # type: ignore[override]  # as in aiohttp's own class
        """End the response; for aiohttp alone, that would be the end of the WebSocket."""
        if not self._is_released:
            await super().write_eof()


class _HttpServer(web.Server):
    """aiohttp's server of one listener. It calls `lost` with each connection that is lost."""

    lost: Callable[[RequestHandler], None]

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self.lost(handler)


class _Accepted(asyncio.Protocol):
    """The first protocol of a connection: it tells the listener of the accept, which comes before TLS."""

    def __init__(self, accepted: Callable[[asyncio.Transport], None]) -> None:
        self._accepted = accepted

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._accepted(cast(asyncio.Transport, transport))  # uvloop's transport does not inherit from it


class _Requests(asyncio.Protocol):
    """The protocol of a connection until its handshake is done. It gives aiohttp at most REQUEST_MAX bytes.

    aiohttp answers a bad request, but goes on to parse what arrives meanwhile. Each read then fails again, and its
    exception keeps the bytes.
    """

    def __init__(self, handler: RequestHandler, tcp: asyncio.Transport, refused: Callable[[str], None]) -> None:
        self._handler = handler
        self._tcp = tcp
        self._refused = refused
        self._room = REQUEST_MAX

    def data_received(self, data: bytes) -> None:
        self._room -= len(data)
        if self._room >= 0:
            self._handler.data_received(data)
        elif not self._tcp.is_closing():
            self._refused("RequestTooLarge")
            self._tcp.abort()

    def eof_received(self) -> None:
        self._handler.eof_received()

    def connection_lost(self, error: BaseException | None) -> None:
        self._handler.connection_lost(error)

    def pause_writing(self) -> None:
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._handler.resume_writing()


class WebSocketListener:
    """A listening port that upgrades at one path; created by `listen`.

    aiohttp runs `_answer` for each request and cancels it when the connection is lost (`handler_cancellation`). The
    handler of a WebSocket ends with the handshake. `_lost` tells its transport of the end of the connection.
    """

    address = ""

    def __init__(self, path: str, limits: TransportLimits, rules: Handshakes) -> None:
        self._path = path
        self._limits = limits
        self._rules = rules
        self._origins = tuple(origin.rstrip("/").lower() for origin in rules.origins)
        self._hosts = frozenset(host.lower() for host in rules.hosts)
        self._host: str | None = None  # the last one that was allowed: clients of one listener send the same
        self._upgraded: dict[RequestHandler, WebSocketTransport] = {}
        self._shaking: set[socket.socket] = set()  # connections in their TLS handshake
        self._counted: dict[RequestHandler, str] = {}  # the peers of connections that count
        self._refused: dict[RequestHandler, str] = {}  # why there is no room for a connection that is still to be told
        self._http = _HttpServer(
            self._answer,
            handler_cancellation=True,
            access_log=None,
            logger=RequestLogger(rules.bad_request),
            keepalive_timeout=limits.handshake_deadline,
        )
        self._http.lost = self._lost
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int, inherited: socket.socket | None = None) -> None:
        """Bind, or take an inherited socket, and accept; raise OSError if the address is not available."""
        place: dict[str, Any] = {"host": host, "port": port} if inherited is None else {"sock": inherited}
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Accepted(self._accepted), **place, backlog=BACKLOG
        )
        for listening in self._server.sockets:  # its connections inherit the option
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        scheme = "ws" if self._rules.tls is None else "wss"
        self.address = f"{scheme}://{address(self._server.sockets[0].getsockname())}{self._path}"

    async def close(self) -> None:
        if self._server is not None:
            await close_server(self._server)
        for connection in self._http.connections:
            if connection not in self._upgraded:  # an idle HTTP client would keep its task until the deadline
                connection.force_close()
        for shaking in self._shaking:
            with contextlib.suppress(OSError):  # it has just ended
                shaking.shutdown(socket.SHUT_RDWR)

    def _accepted(self, tcp: asyncio.Transport) -> None:
        """Count a new connection and give it to aiohttp, or close it."""
        peer = address(tcp.get_extra_info("peername"))
        refusal = self._rules.connect(peer)
        if refusal and len(self._refused) >= TOLD:
            tcp.abort()
            return
        handler = self._http()
        if refusal:
            self._refused[handler] = refusal
        else:
            self._counted[handler] = peer
        if self._rules.tls is None:
            self._serve_http(handler, tcp)
        else:
            # `start_tls` would be too late: uvloop reads the peer's hello before it. So TLS gets its own transport.
            connection = _detached(tcp)
            self._shaking.add(connection)
            self._rules.spawn(self._shake(connection, handler, self._rules.tls), f"{peer}:tls")

    async def _shake(self, connection: socket.socket, handler: RequestHandler, tls: ServerTls) -> None:
        """Do the TLS handshake of a connection and give it to aiohttp."""
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _Accepted(partial(self._serve_http, handler)),
                connection,
                ssl=tls.context,
                ssl_handshake_timeout=self._limits.handshake_deadline,
                ssl_shutdown_timeout=self._limits.close_deadline,
            )
        except OSError:  # the peer went away, was too slow, or does not speak our TLS
            self._lost(handler)
        finally:
            self._shaking.discard(connection)

    def _serve_http(self, handler: RequestHandler, tcp: asyncio.Transport) -> None:
        """Give a connection, with TLS or without, to aiohttp."""
        tcp.set_protocol(_Requests(handler, tcp, self._rules.bad_request))
        handler.connection_made(cast(asyncio.Transport, _HttpTransport(tcp)))

    def _lost(self, handler: RequestHandler) -> None:
        self._refused.pop(handler, None)
        transport = self._upgraded.pop(handler, None)
        if transport is not None:
            transport.lost()
        peer = self._counted.pop(handler, None)
        if peer is not None:
            self._rules.disconnect(peer)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        batched = BatchWriter.possible(request.protocol)
        socket = _Response(
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
            return _unauthorized(accept, presented=any(_tokens(request)))
        early = _take_early(request.protocol)
        try:
            await socket.prepare(request)
        except ConnectionError:
            return socket  # the peer went away: aiohttp would log a traceback for it
        connection = cast(_HttpTransport | None, request.transport)
        if connection is None:
            return socket  # the peer went away during the handshake
        tcp, handler = connection.tcp, request.protocol
        writer = BatchWriter(handler, tcp, text_frames, PING) if batched else FrameWriter(socket, PING)
        transport = WebSocketTransport(socket, tcp, writer, self._limits)
        transport.count(handler, FrameCounter(self._rules.work))
        handler.data_received(early)
        transport.headers = _trace_headers(request)
        self._upgraded[handler] = transport
        accept(transport)
        socket.release(handler, connection)
        return socket

    def _refusal(self, request: web.BaseRequest, socket: _Response) -> web.Response | None:
        full = self._refused.get(request.protocol, "")
        if full:
            busy = _text(503, full)
            busy.headers["Retry-After"] = RETRY_AFTER
            busy.force_close()
            return busy
        if request.path != self._path:
            return _text(404, f"nothing at {request.path!r}: open a WebSocket at {self._path}")
        host = request.headers.get("Host")
        if host is not None and host != self._host and not self._is_ours(host):
            hint = "?host=gateway.example (or * for all)"
            return _text(403, f"host {host!r} is not allowed: add {hint} to the listener's endpoint")
        origin = request.headers.get("Origin")
        if origin is not None and not self._allows(origin):
            hint = "?origin=https://app.example (or * for all)"
            return _text(403, f"origin {origin!r} is not allowed: add {hint} to the listener's endpoint")
        is_ours = request.method == "GET" and request.headers.get("Sec-WebSocket-Version") == VERSION
        if not is_ours or not socket.can_prepare(request):
            refusal = _text(426, f"this is a WebSocket endpoint: open a WebSocket (version {VERSION}) at {self._path}")
            refusal.headers["Upgrade"] = "websocket"
            refusal.headers["Sec-WebSocket-Version"] = VERSION
            return refusal
        return None

    def _is_ours(self, host: str) -> bool:
        """Return True if a client may reach the listener under this name, which no foreign web page can choose."""
        try:
            name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
        except ValueError:
            return False
        if self._hosts & {"*", name} or name == "localhost" or _is_address(name):
            self._host = host
            return True
        return False

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


def _detached(tcp: asyncio.Transport) -> socket.socket:
    """Return the socket of a transport that has read nothing, and close the transport."""
    try:
        detached = socket.socket(fileno=os.dup(tcp.get_extra_info("socket").fileno()))
    finally:
        tcp.abort()
    detached.setblocking(False)
    return detached


def _take_early(handler: RequestHandler) -> bytes:
    """Take the frames that came with the request from aiohttp, which would parse all of them at once."""
    if not hasattr(handler, "_message_tail"):
        return b""
    early, handler._message_tail = handler._message_tail, b""  # noqa: SLF001  # without this name aiohttp parses them
    return bytes(early)


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
    certificate = tcp.get_extra_info("peercert")
    tokens = _tokens(request)
    return PeerFacts(
        address=address(name) if name else "",
        token=tokens[0] if len(tokens) == 1 else "",
        several_tokens=len(tokens) > 1,
        certificate=subject_of(certificate) if certificate else "",
    )


def _trace_headers(request: web.BaseRequest) -> dict[str, str]:
    """Return the headers of the W3C trace context. Two values of `traceparent` contradict each other: none counts."""
    headers = request.headers
    if len(headers.getall("traceparent", ())) != 1:
        return NO_TRACE
    return {name: ",".join(headers.getall(name)) for name in ("traceparent", "tracestate") if name in headers}


def _tokens(request: web.BaseRequest) -> tuple[str, ...]:
    """Return the different bearer tokens of a request: those of its headers, then those of its query."""
    found = []
    for text in request.headers.getall("Authorization", ()):
        scheme, _, token = text.partition(" ")
        if scheme.lower() == "bearer":
            found.append(token.strip())
    if request.query_string:
        found += request.query.getall("token", ())
    return tuple(dict.fromkeys(found))


def _unauthorized(text: str, *, presented: bool) -> web.Response:
    """Return the answer to a request without an accepted token (RFC 6750, section 3)."""
    refusal = _text(401, text)
    refusal.headers["WWW-Authenticate"] = 'Bearer realm="dragoman"' + (', error="invalid_token"' if presented else "")
    return refusal


def _text(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text + "\n")
