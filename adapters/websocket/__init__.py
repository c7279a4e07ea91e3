"""WebSocket frames over aiohttp, as a server (`listen`) and as a client (`connect`).

A message is a frame, either text or binary: dialects read both. Sent messages are text, one for each frame. Compression
is never negotiated, because it costs 100 KiB for each session.

server          listens at a port for clients
handshake       reads a request, has it checked, and answers it
request_check   the checks of a request
http_response   the bytes of the answers
client          connects to a server
connection      joins aiohttp's connection and a parser
transport       a connection after its handshake
client_reader   checks and reads what a client sends, whose work takes turns with that of others
server_reader   reads from a server
message_parser  makes messages of WebSocket frames
frames          writes WebSocket frames, without I/O
tls             certificates from files
metered_tls     decrypts what clients send, in turns
"""

from dragoman.adapters.websocket.client import DialledTransport, HandshakeRefusedError, connect
from dragoman.adapters.websocket.handshake import HandshakeRules
from dragoman.adapters.websocket.server import WebSocketListener, listen
from dragoman.adapters.websocket.tls import CertificateFiles, ServerTls, client_context, read_dates
from dragoman.adapters.websocket.transport import WebSocketTransport

__all__ = [
    "CertificateFiles",
    "DialledTransport",
    "HandshakeRefusedError",
    "HandshakeRules",
    "ServerTls",
    "WebSocketListener",
    "WebSocketTransport",
    "client_context",
    "connect",
    "listen",
    "read_dates",
]
