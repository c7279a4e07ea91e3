"""WebSocket frames over aiohttp, as a server (`listen`) and as a client (`connect`).

A message is a frame, either text or binary: dialects read both. Sent messages are text, one for each frame. Compression
is never negotiated, because it costs 100 KiB for each session.

server         a port for clients                      client         connects to a server
handshake      reads, checks and answers a request     request_check  the checks of a request
http_response  the bytes of the answers                transport      a connection after its handshake
client_reader  what a client sends, in turns           server_reader  what a server sends
message_parser frames become messages                  frame_counter  counts the frames of a client
frames         writes frames, without I/O              connection     joins aiohttp's connection and a parser
tls            certificates from files                 metered_tls    decrypts in turns
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
