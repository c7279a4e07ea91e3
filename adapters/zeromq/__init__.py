"""ZeroMQ over TCP: subscriptions and calls as client (`connect`) and as server (`listen`)."""

from dragoman.adapters.zeromq.client import connect
from dragoman.adapters.zeromq.server import Bounds, listen

__all__ = ["Bounds", "connect", "listen"]
