"""ZeroMQ over TCP: subscriptions and calls as client (`connect`) and as server (`listen`).

client       SUB and DEALER, as one transport
server       XPUB and ROUTER of a primary
publication  the transport to all subscribers
subscribers  bounds the number of subscribers and of their topics
callers      a transport for each caller
sockets      the sockets and their context
polled       a socket on the event loop
curve        encrypted connections of two gateways
"""

from dragoman.adapters.zeromq.client import connect
from dragoman.adapters.zeromq.curve import CurveClient, CurveServer, has_curve, is_key
from dragoman.adapters.zeromq.server import listen
from dragoman.adapters.zeromq.sockets import PrimaryEvents, ZeroMQLimits, tcp_address

__all__ = [
    "CurveClient",
    "CurveServer",
    "PrimaryEvents",
    "ZeroMQLimits",
    "connect",
    "has_curve",
    "is_key",
    "listen",
    "tcp_address",
]
