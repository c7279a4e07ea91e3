"""WebSocket frames over aiohttp, as a server (`listen`) and as a client (`connect`).

A message is a frame, text or binary alike: dialects read both. What is sent is text, one message a frame. Compression
is never negotiated (100 KiB a session).
"""

from dragoman.adapters.websocket.client import DialledTransport, connect
from dragoman.adapters.websocket.server import WebSocketListener, listen
from dragoman.adapters.websocket.transport import WebSocketTransport

__all__ = ["DialledTransport", "WebSocketListener", "WebSocketTransport", "connect", "listen"]
