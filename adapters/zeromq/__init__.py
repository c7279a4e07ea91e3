"""ZeroMQ over TCP: subscriptions and calls as client (`connect`) and as server (`listen`)."""

from dragoman.adapters.zeromq.client import connect
from dragoman.adapters.zeromq.curve import CurveClient, CurveServer, has_curve, is_key
from dragoman.adapters.zeromq.server import PrimaryEvents, listen
from dragoman.adapters.zeromq.sockets import ZeroMQLimits, tcp_address

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
