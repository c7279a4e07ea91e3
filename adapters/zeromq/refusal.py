"""Shut down a connection that libzmq has accepted with a descriptor which the process keeps for others.

libzmq accepts whatever comes, and has no option that bounds its connections. Else connections that say nothing would
take the last descriptors, and no listener of the process could accept a client any more.
"""

from __future__ import annotations

import socket

import zmq

REASON = "too many open files in the gateway"


def refuse_connection(listener: zmq.Socket[bytes], descriptor: int) -> bool:
    """Shut down a connection of a listening socket, and return True; libzmq closes it.

    Return False if the number is not that of a connection of this socket any more. The number is not duplicated,
    because no descriptor may be left.
    """
    port = int(bytes(listener.getsockopt(zmq.LAST_ENDPOINT)).rstrip(b"\0").rpartition(b":")[2])
    try:
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=descriptor)
    except OSError:
        return False
    try:
        if connection.getsockname()[1:2] != (port,):
            return False
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # the peer has left in the meantime
        return False
    else:
        return True
    finally:
        connection.detach()
