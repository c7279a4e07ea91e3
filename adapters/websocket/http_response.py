"""The bytes of the HTTP responses of a WebSocket listener: the acceptance of a handshake, and the refusal of a request.

A refused connection is closed after its response, so no response keeps it alive.
"""

from __future__ import annotations

import base64
import hashlib
from email.utils import formatdate
from http import HTTPStatus

from msgspec import Struct

KEY_SUFFIX = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3
ACCEPTANCE = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: %b\r\n\r\n"
)


class HttpResponse(Struct, frozen=True):
    """A response with one line of text. Further `headers` follow those that every response has."""

    status: HTTPStatus
    text: str
    headers: tuple[tuple[str, str], ...] = ()

    def encode(self, *, has_body: bool = True) -> bytes:
        """Return the response as bytes; the response to a HEAD request has no body."""
        body = f"{self.text}\n".encode()
        headers = (
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("Date", formatdate(usegmt=True)),
            ("Connection", "close"),
            *self.headers,
        )
        lines = (f"HTTP/1.1 {self.status.value} {self.status.phrase}", *(": ".join(header) for header in headers))
        return "\r\n".join((*lines, "", "")).encode() + (body if has_body else b"")


def acceptance(key: str) -> bytes:
    """Return the response to a handshake with this key (RFC 6455, section 4.2.2)."""
    return ACCEPTANCE % accept_value(key).encode()


def accept_value(key: str) -> str:
    """Return the value of `Sec-WebSocket-Accept` for this key (RFC 6455, section 4.2.2)."""
    return base64.b64encode(hashlib.sha1(key.encode() + KEY_SUFFIX, usedforsecurity=False).digest()).decode()
