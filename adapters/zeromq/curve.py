"""CURVE: encrypted ZeroMQ connections between two gateways that know each other's public keys (RFC 26).

The server accepts the clients whose public keys it knows, and a client connects only to the server whose public key it
knows. libzmq asks an authenticator in the context of the server (ZAP, RFC 27); pyzmq's own one answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import zmq
from msgspec import Struct

SocketOptions = Mapping[int, int | bytes]
OVERHEAD = 1024  # bytes: the largest frame of a handshake; an encrypted message is 33 bytes longer than its text


class CurveServer(Struct, frozen=True, kw_only=True):
    """The secret key of a listener, and the function that returns True for a public key that may connect."""

    secret: bytes
    accepts: Callable[[bytes], bool]

    @property
    def options(self) -> SocketOptions:
        return {zmq.CURVE_SERVER: 1, zmq.CURVE_SECRETKEY: self.secret}

    def callback(self, _domain: str, key: bytes) -> bool:
        """Answer pyzmq's authenticator, which calls this for each client."""
        return self.accepts(key)


class CurveClient(Struct, frozen=True, kw_only=True):
    """The secret key of a client, and the public key of its server."""

    secret: bytes
    server: bytes

    @property
    def options(self) -> SocketOptions:
        return {
            zmq.CURVE_SERVERKEY: self.server,
            zmq.CURVE_SECRETKEY: self.secret,
            zmq.CURVE_PUBLICKEY: zmq.curve_public(self.secret),
        }


def has_curve() -> bool:
    """Return True if this libzmq can encrypt."""
    return bool(zmq.has("curve"))


def is_key(text: str) -> bool:
    """Return True if this text is a key in Z85."""
    try:
        return bool(zmq.curve_public(text.encode()))
    except (zmq.ZMQError, ValueError):  # ValueError: another length
        return False
