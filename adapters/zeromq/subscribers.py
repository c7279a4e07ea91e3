"""Who is connected to a publication, and who of them does not read.

libzmq tells neither which subscriber is full nor how to disconnect one. The kernel knows: the connection of one who
does not read has bytes in its send queue that stay there. Such a connection is shut down, after `stall_deadline` and
only when somebody else is subscribed too: alone he harms nobody, and what he misses is counted.

The descriptors belong to libzmq, which may have closed one and got its number again for another connection. So a number
is only used for the connection that it was told for, and only to look at it and to shut it down, never to close it.
"""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
import termios

import zmq
from msgspec import Struct

__all__ = ["Subscribers"]

QUEUE = struct.Struct("i")


class Connection(Struct):
    """One subscriber: the peer's address, and since when which size of its send queue has been the same."""

    peer: object
    queue: int = 0
    since: float = 0.0


class Subscribers:
    """The connections of one XPUB socket."""

    EVENTS = int(zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED)

    def __init__(self, stall_deadline: float) -> None:
        self.cut = 0
        """Subscribers that were disconnected because they did not read."""
        self._stall_deadline = stall_deadline
        self._connections: dict[int, Connection] = {}

    def __len__(self) -> int:
        return len(self._connections)

    def hear(self, event: int, value: int) -> None:
        """A connection came or went; `value` is its descriptor."""
        if event == zmq.EVENT_ACCEPTED:
            with contextlib.suppress(OSError), socket.fromfd(value, socket.AF_INET, socket.SOCK_STREAM) as connection:
                self._connections[value] = Connection(peer=connection.getpeername())
        else:
            self._connections.pop(value, None)

    def blame(self, now: float) -> None:
        """Somebody is full and has been for a while: look who it is, and disconnect whom it has been for too long."""
        for descriptor, known in list(self._connections.items()):
            with contextlib.suppress(OSError), socket.fromfd(descriptor, socket.AF_INET, socket.SOCK_STREAM) as used:
                ours = used.getpeername() == known.peer
                if ours and not (self._stalled(used, known, now) and len(self._connections) > 1):
                    continue
                if ours:
                    used.shutdown(socket.SHUT_RDWR)
                    self.cut += 1
            del self._connections[descriptor]

    def _stalled(self, connection: socket.socket, known: Connection, now: float) -> bool:
        (queue,) = QUEUE.unpack(fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(QUEUE.size)))
        if queue == 0 or queue != known.queue:
            known.queue, known.since = queue, now
        return queue > 0 and now - known.since >= self._stall_deadline
