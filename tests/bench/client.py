"""A WebSocket on a blocking socket that reads first and looks afterwards.

While the clock runs it only takes bytes from the kernel. Whoever uses it decodes and checks every frame once the clock
has stopped. So this end costs next to nothing, and yet everything that arrives is checked.
"""

from __future__ import annotations

import os
import socket
from base64 import b64encode
from typing import Any
from urllib.parse import urlsplit

import msgspec

TEXT = 0x1
READ_SIZE = 1 << 20
PATIENCE = 120.0  # seconds without a byte after which the bridge counts as broken


class Client:
    """A connected client."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 80))
        self._socket.settimeout(PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._handshake(parts.netloc, parts.path)

    def close(self) -> None:
        self._socket.close()

    def _handshake(self, host: str, path: str) -> None:
        key = b64encode(os.urandom(16)).decode()
        self._socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self._socket.recv(1)  # byte by byte: what follows the head belongs to the first frame
        assert head.startswith(b"HTTP/1.1 101 "), head

    def _send(self, action: dict[str, Any]) -> None:
        payload = msgspec.json.encode(action)
        size, mask = len(payload), os.urandom(4)
        head = bytes((0x80 | TEXT, 0x80 | 126)) + size.to_bytes(2)  # no action of ours is longer
        self._socket.sendall(head + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload)))

    def _receive(self) -> bytes:
        chunk = self._socket.recv(READ_SIZE)
        assert chunk, "the bridge closed the connection"
        return chunk

    def _whole(self, received: bytes) -> bytes:
        """`received` up to the end of a frame, with what is still missing of it."""
        at = 0
        while at < len(received):
            while not headed(received, at):
                received += self._receive()
            at = frame(received, at)[2]
            while len(received) < at:
                received += self._receive()
        return received


def frame(received: bytes, at: int) -> tuple[int, int, int]:
    """Opcode, start and end of the payload of the frame at `at`; of a masked one the mask stands first in it."""
    size, start = received[at + 1] & 0x7F, at + 2
    mask = 4 if received[at + 1] & 0x80 else 0
    if size == 126:
        size, start = int.from_bytes(received[at + 2 : at + 4]), at + 4
    elif size == 127:
        size, start = int.from_bytes(received[at + 2 : at + 10]), at + 10
    return received[at] & 0x0F, start, start + mask + size


def headed(received: bytes, at: int) -> bool:
    """Return True if the header of the frame at `at` is complete."""
    have = len(received) - at
    return have >= 2 and have >= {126: 4, 127: 10}.get(received[at + 1] & 0x7F, 2)
