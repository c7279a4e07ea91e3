"""A client of a WebSocket listener that sends any bytes, without a socket: what the listener reads and answers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from typing import Any

from dragoman.adapters.base import Transport, TransportLimits
from dragoman.adapters.websocket import WebSocketListener
from dragoman.mappings.dialect import Frame
from tests.adapters.websocket.peers import everybody, request
from tests.transport_reader import receive_all

LIMITS = TransportLimits(max_message=1024, close_deadline=0.0)
SIZE_MAX = 4096  # bytes that are fed one by one: no read of so many holds too many pings

DATE = re.compile(rb"Date: [^\r]*\r\n")

Heard = tuple[list[Frame], bytes, bool]
"""The messages of the client, what the listener wrote, and whether it closed the connection before the client did.

Only the code of a close frame is kept: the parser of aiohttp may find a fault before ours, and words it in another way.
The date of a response is left out.
"""


class Written(asyncio.Transport):
    """The transport of a connection that keeps what is written; nothing is ever read from it."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.writes: list[bytes] = []
        self.protocol: asyncio.BaseProtocol = asyncio.Protocol()
        self.closing = False

    def write(self, data: Any) -> None:
        if not self.closing:
            self.writes.append(bytes(data[2:4]) if data[:1] == b"\x88" else DATE.sub(b"", bytes(data)))

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading

    def close(self) -> None:
        self.closing = True

    abort = close


def handshake(data: bytes) -> None:
    """Send `data` in place of a request, and inside of one."""
    at = len(data) % len(request())
    for said in (data, request()[:at] + data + request()[at:]):
        _send(said)


def frames(data: bytes) -> None:
    """Send each line of `data` as a masked frame whose first byte it begins with, but as it is if that is 0xff."""
    said = request()
    for line in data.split(b"\n"):
        said += line[1:] if line[:1] == b"\xff" else _masked(line[:1] or b"\x81", line[1:])
    _send(said)


def _masked(first: bytes, payload: bytes) -> bytes:
    size = len(payload)
    length = bytes((size | 0x80,)) if size < 126 else b"\xfe" + size.to_bytes(2)
    return first + length + bytes(4) + payload


def _send(said: bytes) -> None:
    """Send this in one piece and byte by byte: the listener must hear and answer the same."""
    said = said[:SIZE_MAX]
    assert asyncio.run(_heard([said])) == asyncio.run(_heard(said[at : at + 1] for at in range(len(said))))


async def _heard(pieces: Iterable[bytes]) -> Heard:
    accepted: list[Transport] = []
    listener = WebSocketListener("/ws", LIMITS, everybody(accepted.append))
    tcp = Written()
    listener._accepted(tcp)
    protocol = tcp.protocol
    assert isinstance(protocol, asyncio.Protocol)
    reading: asyncio.Task[list[Frame]] | None = None
    async with asyncio.TaskGroup() as group:
        for piece in pieces:
            if tcp.closing:
                break
            protocol.data_received(piece)
            if accepted and reading is None:
                reading = group.create_task(receive_all(accepted[0]))
            await asyncio.sleep(0)
        closed = tcp.closing
        protocol.connection_lost(None)
        heard = await reading if reading is not None else []
    for transport in accepted:
        await transport.close()
    return heard, b"".join(tcp.writes), closed  # a read with several pings is answered in one write
