"""WebSocket frames for the load generators (RFC 6455): messages of one frame each, as our peers send them."""

from __future__ import annotations

import base64
import hashlib
import socket
from collections.abc import Iterator

TEXT = 0x1
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3


def payloads(received: bytes) -> Iterator[bytes]:
    """The text messages in `received`, which ends with a frame; a message of a server is one unmasked frame."""
    at = 0
    while at < len(received):
        opcode, start, end = frame(received, at)
        if opcode == TEXT:
            yield received[start:end]
        at = end


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
    """Whether the header of the frame at `at` is there."""
    have = len(received) - at
    return have >= 2 and have >= {126: 4, 127: 10}.get(received[at + 1] & 0x7F, 2)


def text(payload: bytes) -> bytes:
    """A text message of a server."""
    size = len(payload)
    head = bytes((0x80 | TEXT, size)) if size < 126 else bytes((0x80 | TEXT, 126)) + size.to_bytes(2)
    return head + payload


def unmasked(payload: bytes) -> bytes:
    """The payload of a client's frame."""
    mask = payload[:4]
    return bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload[4:]))


def accept(connection: socket.socket) -> None:
    """Play the server of a WebSocket handshake, without extensions."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += connection.recv(1)  # byte by byte: what follows the head belongs to the first frame
    fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:] if line)
    key = next(value for name, value in fields.items() if name.lower() == "sec-websocket-key")
    proof = base64.b64encode(hashlib.sha1(key.encode() + MAGIC).digest())  # as the RFC wants it
    connection.sendall(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + proof + b"\r\n\r\n"
    )
