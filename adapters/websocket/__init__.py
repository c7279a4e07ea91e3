"""WebSocket frames over aiohttp, as a server (`listen`) and as a client (`connect`).

A message is a frame, either text or binary: dialects read both. Sent messages are text, one for each frame. Compression
is never negotiated, because it costs 100 KiB for each session.
"""

from dragoman.adapters.websocket.client import DialledTransport, HandshakeRefusedError, connect
from dragoman.adapters.websocket.handshake import Handshakes
from dragoman.adapters.websocket.server import WebSocketListener, listen
from dragoman.adapters.websocket.tls import CertificateFiles, ServerTls, client_context
from dragoman.adapters.websocket.transport import WebSocketTransport

__all__ = [
    "CertificateFiles",
    "DialledTransport",
    "HandshakeRefusedError",
    "Handshakes",
    "ServerTls",
    "WebSocketListener",
    "WebSocketTransport",
    "client_context",
    "connect",
    "listen",
]
