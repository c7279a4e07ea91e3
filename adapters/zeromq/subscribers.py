"""The subscribers of a publication, and the detection of one that does not read.

libzmq reports neither which subscriber is full nor a way to disconnect one. The kernel knows: bytes stay in the send
queue of a connection whose peer does not read. Such a connection is shut down after `stall_deadline`, but only if there
are other subscribers. A single one harms no other, and its missed messages are counted.

The descriptors belong to libzmq, which may have closed one and reused its number. So a number is used only if it still
belongs to the same peer, and only to inspect and shut down the connection, never to close it.
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
    """One subscriber: its address, its send queue (bytes), and the time (s) of that size's last change."""

    peer: object
    queue: int = 0
    since: float = 0.0


class Subscribers:
    """The connections of one XPUB socket."""

    EVENTS = int(zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED)

    def __init__(self, stall_deadline: float) -> None:
        self.cut = 0
        """Number of subscribers disconnected because they did not read."""
        self._stall_deadline = stall_deadline
        self._connections: dict[int, Connection] = {}

    def __len__(self) -> int:
        return len(self._connections)

    def hear(self, event: int, value: int) -> None:
        """Add or remove a connection; `value` is its descriptor."""
        if event == zmq.EVENT_ACCEPTED:
            with contextlib.suppress(OSError), socket.fromfd(value, socket.AF_INET, socket.SOCK_STREAM) as connection:
                self._connections[value] = Connection(peer=connection.getpeername())
        else:
            self._connections.pop(value, None)

    def disconnect_stalled(self, now: float) -> None:
        """Measure all send queues, and disconnect subscribers that have not read for `stall_deadline`."""
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
