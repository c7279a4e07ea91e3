"""One WebSocket connection after its handshake, whoever dialled; and the two ways to write to it.

Sending is where the time goes: a system call costs 20 times a frame (docs/performance.md, section 2b), and aiohttp
makes one for every message. `Corked` therefore writes the headers itself and a batch at once; where the few
semi-private names of aiohttp that it needs are missing, `Framewise` says the same slowly.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from aiohttp import ClientWebSocketResponse, WSMessage, WSMsgType, web
from aiohttp.base_protocol import BaseProtocol

from dragoman.adapters.base import CloseReason, Limits, Sink
from dragoman.adapters.inbound import Pulled
from dragoman.mappings.dialect import Frame, Oversize

__all__ = [
    "HARD_LIMIT",
    "ClientSocket",
    "Corked",
    "Framewise",
    "ServerSocket",
    "WebSocketTransport",
    "address",
    "retrieve",
]

HARD_LIMIT = 4  # times max_message: up to it a message is refused by itself, past it the connection closes with 1009
REASON_SIZE = 123  # bytes of text that fit into a close frame (RFC 6455, section 5.5)

ClientSocket = ClientWebSocketResponse[Literal[False]]
ServerSocket = web.WebSocketResponse[Literal[False]]


class Writer(Protocol):
    """What writes a batch of frames; ConnectionError when the peer is gone. `ping` is an empty one."""

    @property
    def ping(self) -> bytes: ...

    async def send(self, frames: Sequence[bytes]) -> None: ...

    def try_send(self, frames: Sequence[bytes]) -> bool: ...


class Corked:
    """Writes a batch at once, past aiohttp's writer, and keeps to its flow control.

    It leans on `_drain_waiter` and `_paused` of aiohttp's protocol.
    """

    def __init__(
        self, protocol: BaseProtocol, tcp: asyncio.Transport, encode: Callable[[Sequence[bytes]], bytes], ping: bytes
    ) -> None:
        self.ping = ping
        self._protocol = protocol
        self._tcp = tcp
        self._encode = encode

    @staticmethod
    def possible(protocol: BaseProtocol) -> bool:
        """Whether this aiohttp has what we lean on."""
        return hasattr(protocol, "_drain_waiter") and hasattr(protocol, "_paused")

    async def send(self, frames: Sequence[bytes]) -> None:
        await self._kept_up()
        self._tcp.write(self._encode(frames))
        await self._kept_up()

    def try_send(self, frames: Sequence[bytes]) -> bool:
        if self._protocol._paused or self._tcp.is_closing():  # noqa: SLF001  # `writing_paused` costs a call for each token
            return False
        self._tcp.write(self._encode(frames))
        return True

    async def _kept_up(self) -> None:
        protocol = self._protocol
        while protocol.writing_paused and protocol.connected:
            waiter = protocol._drain_waiter  # noqa: SLF001  # its own _drain_helper breaks once a waiting call is cancelled
            if waiter is None or waiter.done():
                waiter = asyncio.get_running_loop().create_future()
                waiter.add_done_callback(retrieve)
                protocol._drain_waiter = waiter  # noqa: SLF001  # as above
            await asyncio.wait((waiter,))  # neither cancels a future that others share nor is cancelled with it
        if self._tcp.is_closing():
            raise ConnectionResetError("the peer is gone")


class Framewise:
    """Writes one message after another, in aiohttp's public words.

    Two weaknesses are aiohttp's own. All who wait for a peer share one future, so a server's close that gives up at its
    deadline ends a waiting send with CancelledError instead of ConnectionError. And a client looks at back-pressure
    only every 256 KiB, so that a send may return with so much more waiting than `send_high`.
    """

    def __init__(self, socket: ClientSocket | ServerSocket, ping: bytes) -> None:
        self.ping = ping
        self._socket = socket

    async def send(self, frames: Sequence[bytes]) -> None:
        for frame in frames:
            await self._socket.send_frame(frame, WSMsgType.TEXT)

    def try_send(self, frames: Sequence[bytes]) -> bool:
        return False  # it knows only how to wait


class WebSocketTransport:
    """One connection, after its handshake."""

    def __init__(
        self, socket: ClientSocket | ServerSocket, tcp: asyncio.Transport, writer: Writer, limits: Limits
    ) -> None:
        if not tcp.is_closing():  # the peer may be gone already, and uvloop then takes no limits
            tcp.set_write_buffer_limits(high=limits.send_high)
        self.peer = address(tcp.get_extra_info("peername"))
        self._socket = socket
        self._tcp = tcp
        self._writer = writer
        self._limits = limits
        self._pulled = Pulled()
        # What aiohttp has and nobody read yet; nothing where it does not let us look.
        self._unread: Sequence[tuple[WSMessage, int]] = getattr(getattr(socket, "_reader", None), "_buffer", ())
        self._ended = False  # nothing more will be read, and nothing may be written: the closing handshake has begun
        self._lost = asyncio.Event()
        self._heard = False  # since the last look whether the peer lives
        self._look: asyncio.TimerHandle | None = None
        self._look_in(limits.heartbeat)

    async def run(self, sink: Sink) -> None:
        # aiohttp reads in C code that calls nobody: this is the one transport that waits in a task.
        while not self._ended:
            await self._pulled.give(sink, await self._read())  # without a name that holds them until the next ones

    def resume(self) -> None:
        self._pulled.resume()

    async def send(self, frames: Sequence[bytes]) -> None:
        if self._socket.closed:
            raise ConnectionResetError(f"{self.peer} is gone")
        await self._writer.send(frames)

    def try_send(self, frames: Sequence[bytes]) -> bool:
        return not self._ended and self._writer.try_send(frames)

    def peer_can_read(self) -> bool:
        return False

    async def close(self, reason: CloseReason = CloseReason.DONE, text: str = "") -> None:
        self._ended = True
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
        """The TCP connection is gone; called by whoever made this transport."""
        self._lost.set()
        if self._look is not None:
            self._look.cancel()

    # aiohttp has a heartbeat of its own, which costs 2 us a message on a link that never is silent: 4 % of an event.

    def _look_in(self, seconds: float) -> None:
        if seconds and not self._lost.is_set():
            self._look = asyncio.get_running_loop().call_later(seconds, self._lives, seconds)

    def _lives(self, since: float) -> None:
        """Ping a peer that was silent for a heartbeat, and drop one that did not answer for half of one more."""
        heartbeat = self._limits.heartbeat
        if self._heard or self._unread:
            self._heard = False
            self._look_in(heartbeat)
        elif since == heartbeat and not self._tcp.is_closing():
            self._tcp.write(self._writer.ping)
            self._look_in(heartbeat / 2)
        else:
            self._tcp.abort()

    async def _read(self) -> list[Frame]:
        """Wait for a message, and take the further ones that are here already; none at the end."""
        frames: list[Frame] = []
        while not self._ended and (not frames or self._ready()):
            message = await self._socket.receive()
            self._heard = True
            kind = message.type
            if kind is WSMsgType.TEXT or kind is WSMsgType.BINARY:
                size, limit = len(message.data), self._limits.max_message
                frames.append(message.data if size <= limit else Oversize(size=size, limit=limit))
            elif kind is WSMsgType.PING:
                with contextlib.suppress(ConnectionError):  # what the peer said behind it still counts
                    await self._socket.pong(message.data)
            elif kind is not WSMsgType.PONG:  # one of four ways to end
                self._ended = True
        return frames

    def _ready(self) -> bool:
        """Whether a frame is there without waiting."""
        return bool(self._unread) and self._unread[0][0].type in (WSMsgType.TEXT, WSMsgType.BINARY)


def address(name: tuple[str, int] | None) -> str:
    """The name of a TCP peer or socket, for logs and endpoints."""
    if name is None:
        return "a peer that is gone"  # already when it was asked for
    host, port = name[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def retrieve(waiter: asyncio.Future[None]) -> None:
    """A connection that was lost is found out by `is_closing`; the waiter's own exception has nothing to add."""
    if not waiter.cancelled():
        waiter.exception()
