"""WebSocket frames, as a server, over aiohttp.

A message is a frame, text or binary alike: dialects read both. The handshake refuses what is not for us in one line
of text that says what would be right. A page of the web may open a WebSocket to 127.0.0.1, and its browser says where
it came from: an Origin that is neither loopback nor allowed by name is refused.

Sending is where the time goes: a system call costs 20 times a frame (performance.md, section 2b), and aiohttp makes
one for every message. `_Corked` therefore writes the headers itself and a batch at once; where the few semi-private
names of aiohttp that it needs are missing, `_Framewise` says the same slowly. Compression is never negotiated (100
KiB a session).
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Sequence
from typing import Literal, Protocol
from urllib.parse import urlsplit

from aiohttp import WSMessage, WSMsgType, web
from aiohttp.base_protocol import BaseProtocol

from adapters.base import BACKLOG, Accept, CloseReason, Limits
from mappings.dialect import Frame, Oversize

__all__ = ["WebSocketListener", "WebSocketTransport", "listen", "text_frames"]

HARD_LIMIT = 4  # times max_message: up to it a message is refused by itself, past it the connection closes with 1009
LOOPBACK = ("localhost", "127.0.0.1", "::1")
REASON_SIZE = 123  # bytes of text that fit into a close frame (RFC 6455, section 5.5)

FINAL_TEXT = 0x81
SHORT = [bytes((FINAL_TEXT, size)) for size in range(126)]
MEDIUM = struct.Struct(">BBH").pack
LONG = struct.Struct(">BBQ").pack

WebSocket = web.WebSocketResponse[Literal[False]]


def text_frames(frames: Sequence[bytes]) -> bytes:
    """The frames as unmasked WebSocket text messages, back to back (RFC 6455, section 5.2)."""
    try:
        return b"".join([part for frame in frames for part in (HEADERS[len(frame)], frame)])
    except IndexError:
        return b"".join([part for frame in frames for part in (_header(len(frame)), frame)])


def _header(size: int) -> bytes:
    if size < 126:
        return SHORT[size]
    if size < 65536:
        return MEDIUM(FINAL_TEXT, 126, size)
    return LONG(FINAL_TEXT, 127, size)


HEADERS = [_header(size) for size in range(4096)]


class _Writer(Protocol):
    async def send(self, frames: Sequence[bytes]) -> None: ...


class _Corked:
    """Writes a batch at once, past aiohttp's writer, and keeps to its flow control. Leans on `_drain_waiter`."""

    def __init__(self, protocol: BaseProtocol, tcp: asyncio.Transport) -> None:
        self._protocol = protocol
        self._tcp = tcp

    @staticmethod
    def possible(protocol: BaseProtocol) -> bool:
        """Whether this aiohttp has what we lean on."""
        return hasattr(protocol, "_drain_waiter") and hasattr(protocol, "writing_paused")

    async def send(self, frames: Sequence[bytes]) -> None:
        await self._kept_up()
        self._tcp.write(text_frames(frames))
        await self._kept_up()

    async def _kept_up(self) -> None:
        protocol = self._protocol
        while protocol.writing_paused and protocol.connected:
            waiter = protocol._drain_waiter  # noqa: SLF001  # its own _drain_helper breaks once a waiting call is cancelled
            if waiter is None or waiter.done():
                waiter = asyncio.get_running_loop().create_future()
                waiter.add_done_callback(_retrieve)
                protocol._drain_waiter = waiter  # noqa: SLF001  # as above
            await asyncio.wait((waiter,))  # neither cancels a future that others share nor is cancelled with it
        if self._tcp.is_closing():
            raise ConnectionResetError("the peer is gone")


class _Framewise:
    """Writes one message after another, in aiohttp's public words.

    One weakness is aiohttp's own: all who wait for a peer share one future, so a close that gives up at its deadline
    ends a waiting send with CancelledError instead of ConnectionError.
    """

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def send(self, frames: Sequence[bytes]) -> None:
        for frame in frames:
            await self._socket.send_frame(frame, WSMsgType.TEXT)


class WebSocketTransport:
    """One connection, after its handshake."""

    def __init__(self, socket: WebSocket, tcp: asyncio.Transport, writer: _Writer, limits: Limits) -> None:
        self.peer = _address(tcp.get_extra_info("peername"))
        self._socket = socket
        self._tcp = tcp
        self._writer = writer
        self._limits = limits
        self._frames: list[Frame] = []  # outlives a cancelled receive
        self._ended = False
        self._lost = asyncio.Event()

    async def receive(self) -> Sequence[Frame]:
        while not self._frames and not self._ended:
            await self._read()
        while self._ready():
            await self._read()
        frames, self._frames = self._frames, []
        return frames

    async def send(self, frames: Sequence[bytes]) -> None:
        if self._socket.closed:
            raise ConnectionResetError(f"{self.peer} is gone")
        await self._writer.send(frames)

    async def close(self, reason: CloseReason = CloseReason.DONE, text: str = "") -> None:
        cut = text.encode()[:REASON_SIZE].decode(errors="ignore")
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._limits.close_deadline):
                    await self._socket.close(code=reason, message=cut.encode())
                    await self._lost.wait()
        finally:
            if not self._lost.is_set():
                self._tcp.abort()
        await self._lost.wait()

    def lost(self) -> None:
        """The TCP connection is gone; called by the listener."""
        self._lost.set()

    async def _read(self) -> None:
        message = await self._socket.receive()
        if message.type is WSMsgType.TEXT or message.type is WSMsgType.BINARY:
            size, limit = len(message.data), self._limits.max_message
            self._frames.append(message.data if size <= limit else Oversize(size=size, limit=limit))
        else:  # pings and pongs do not come here, so it is one of four ways to end
            self._ended = True

    def _ready(self) -> bool:
        """Whether the next `_read` gives a frame without waiting; False where aiohttp does not let us look."""
        queue = getattr(self._socket, "_reader", None)
        waiting: Sequence[tuple[WSMessage, int]] = getattr(queue, "_buffer", None) or ()
        return len(waiting) > 0 and waiting[0][0].type in (WSMsgType.TEXT, WSMsgType.BINARY)


class WebSocketListener:
    """A listening port that upgrades at one path; made by `listen`.

    aiohttp runs `_answer` for each request and, by `handler_cancellation`, cancels it when the connection is lost: the
    handler of a WebSocket lives exactly as long as its connection.
    """

    address = ""

    def __init__(self, path: str, limits: Limits, accept: Accept, origins: tuple[str, ...]) -> None:
        self._path = path
        self._limits = limits
        self._accept = accept
        self._origins = tuple(origin.rstrip("/").lower() for origin in origins)
        self._upgraded: set[object] = set()
        self._http = web.Server(self._answer, handler_cancellation=True, access_log=None)
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> None:
        """Accept from now on; OSError when the address cannot be had."""
        self._server = await asyncio.get_running_loop().create_server(self._http, host, port, backlog=BACKLOG)
        self.address = f"ws://{_address(self._server.sockets[0].getsockname())}{self._path}"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in self._http.connections:
            if connection not in self._upgraded:  # an idle HTTP client would keep its task for a minute
                connection.force_close()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        corked = _Corked.possible(request.protocol)
        socket: WebSocket = web.WebSocketResponse(
            timeout=self._limits.close_deadline,
            heartbeat=self._limits.heartbeat or None,
            compress=False,
            decode_text=False,
            max_msg_size=HARD_LIMIT * self._limits.max_message,
            writer_limit=self._limits.send_high if corked else 0,  # 0: aiohttp minds back-pressure at every message
        )
        refusal = self._refusal(request, socket)
        if refusal is not None:
            return refusal
        await socket.prepare(request)
        tcp = request.transport
        if tcp is None:
            return socket  # gone during the handshake
        tcp.set_write_buffer_limits(high=self._limits.send_high)
        writer = _Corked(request.protocol, tcp) if corked else _Framewise(socket)
        transport = WebSocketTransport(socket, tcp, writer, self._limits)
        self._upgraded.add(request.protocol)
        try:
            self._accept(transport)
            await asyncio.get_running_loop().create_future()
        finally:
            self._upgraded.discard(request.protocol)
            transport.lost()
        return socket

    def _refusal(self, request: web.BaseRequest, socket: WebSocket) -> web.Response | None:
        if request.path != self._path:
            return _text(404, f"nothing at {request.path!r}: open a WebSocket at {self._path}")
        origin = request.headers.get("Origin")
        if origin is not None and not self._allows(origin):
            hint = "?origin=https://app.example (or * for every one)"
            return _text(403, f"origin {origin!r} is not allowed: add {hint} to the listener's endpoint")
        if request.method != "GET" or not socket.can_prepare(request):
            refusal = _text(426, f"this is a WebSocket endpoint: open a WebSocket (version 13) at {self._path}")
            refusal.headers["Upgrade"] = "websocket"
            return refusal
        return None

    def _allows(self, origin: str) -> bool:
        if "*" in self._origins or origin.rstrip("/").lower() in self._origins:
            return True
        try:
            url = urlsplit(origin)
        except ValueError:
            return False
        return url.scheme in ("http", "https") and url.hostname in LOOPBACK


async def listen(
    host: str, port: int, path: str, limits: Limits, accept: Accept, origins: tuple[str, ...] = ()
) -> WebSocketListener:
    """Listen at ws://host:port/path; port 0 is chosen by the OS.

    `origins` are allowed beside those of loopback; `*` allows every one.
    """
    listener = WebSocketListener(path, limits, accept, origins)
    await listener.start(host, port)
    return listener


def _text(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text + "\n")


def _address(name: tuple[str, int]) -> str:
    host, port = name[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _retrieve(waiter: asyncio.Future[None]) -> None:
    """A connection that was lost is found out by `is_closing`; the waiter's own exception has nothing to add."""
    if not waiter.cancelled():
        waiter.exception()
