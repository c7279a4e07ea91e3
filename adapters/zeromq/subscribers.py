"""The subscribers of a publication, and the detection of one that does not read.

libzmq does not report which subscriber is full, and has no way to disconnect one. The kernel knows: bytes stay in the
send queue of a connection whose peer does not read. Such a connection is shut down after `stall_deadline`, but only if
there are other subscribers. A single one harms no other, and its missed messages are counted.

libzmq keeps every subscription of every connection, about 40 bytes of memory for each byte, and has no option that
bounds them; ZMQ_XPUB_MANUAL keeps them as well. But each subscription comes with the descriptor of its connection. So
a connection with too many subscriptions is shut down, and libzmq frees what it kept for it. A connection above the
limit of connections is shut down too.

One call of ours makes libzmq take all subscriptions that it has read, and those that it reads meanwhile. The socket's
queue for them has room for one, so that libzmq soon finds it empty and returns.

The descriptors belong to libzmq, which may have closed one and reused its number. So a number is used only if it still
belongs to the same peer. It serves to inspect and shut down the connection, never to close it.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import zmq
from msgspec import Struct, field

from dragoman.adapters.send_queue import count_unread


class Subscriber(Struct):
    """A subscriber of a publication. Its send queue has had `queue` bytes since `since` (s)."""

    peer: object
    queue: int = 0
    since: float = 0.0
    topics: set[bytes] = field(default_factory=set)


class Subscribers:
    """The connections of one XPUB socket: at most `most`, each with at most `topics` topics.

    `refused` is called with the reason for each connection that is shut down because of these bounds.
    """

    def __init__(self, stall_deadline: float, *, most: int, topics: int, refused: Callable[[str], None]) -> None:
        self._stall_deadline = stall_deadline
        self._most = most
        self._topics = topics
        self._refused = refused
        self._connections: dict[int, Subscriber] = {}

    def __len__(self) -> int:
        return len(self._connections)

    def note_event(self, event: int, value: int) -> None:
        """Add or remove a connection; `value` is its descriptor."""
        if event == zmq.EVENT_ACCEPTED:
            self._connections.pop(value, None)  # its number was reused
            with contextlib.suppress(OSError), _copy(value) as connection:
                self._connections[value] = Subscriber(peer=connection.getpeername())
            if value in self._connections and len(self._connections) > self._most:
                self._refuse(value, "more subscribers than `subscribers` allows")
        else:
            self._connections.pop(value, None)

    def subscribed(self, descriptor: int, topic: bytes) -> None:
        """Count a topic of a connection, and shut the connection down if it has too many."""
        known = self._connections.get(descriptor)
        if known is not None:
            known.topics.add(topic)
            if len(known.topics) > self._topics:
                self._refuse(descriptor, "more topics of one subscriber than `subscriptions` allows")

    def unsubscribed(self, descriptor: int, topic: bytes) -> None:
        """Stop counting a topic of a connection."""
        known = self._connections.get(descriptor)
        if known is not None:
            known.topics.discard(topic)

    def disconnect_stalled(self, now: float) -> None:
        """Measure all send queues, and disconnect subscribers that have not read for `stall_deadline`."""
        for descriptor, known in list(self._connections.items()):
            with _duplicate(descriptor, known) as connection:
                if connection is None:
                    del self._connections[descriptor]
                elif _stalled(connection, known, now, self._stall_deadline) and len(self._connections) > 1:
                    self._shut_down(descriptor, connection)

    def _refuse(self, descriptor: int, why: str) -> None:
        known = self._connections[descriptor]
        with _duplicate(descriptor, known) as connection:
            if connection is None:
                del self._connections[descriptor]
            else:
                self._shut_down(descriptor, connection)
                self._refused(why)

    def _shut_down(self, descriptor: int, connection: socket.socket) -> None:
        del self._connections[descriptor]
        with contextlib.suppress(OSError):  # the peer has left in the meantime
            connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def _duplicate(descriptor: int, known: Subscriber) -> Iterator[socket.socket | None]:
    """Yield a descriptor of our own for a connection, or None if the connection is gone.

    The number may have become that of a file or of another connection, at any time before it is duplicated.
    """
    try:
        connection = _copy(descriptor)
    except OSError:
        yield None
        return
    with connection:
        yield connection if _peer(connection) == known.peer else None


def _copy(descriptor: int) -> socket.socket:
    """Return a descriptor of our own for a connection; raise OSError if the number is not that of a socket."""
    copy = os.dup(descriptor)
    try:
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=copy)
    except OSError:
        os.close(copy)  # `socket.fromfd` leaves it open
        raise


def _peer(connection: socket.socket) -> object:
    try:
        return connection.getpeername()
    except OSError:  # not connected any more, or not a socket
        return None


def _stalled(connection: socket.socket, known: Subscriber, now: float, deadline: float) -> bool:
    """Return True if the peer has read nothing for `deadline` seconds, as far as the system reports it."""
    queue = count_unread(connection.fileno())
    if queue == 0 or queue != known.queue:
        known.queue, known.since = queue, now
    return queue > 0 and now - known.since >= deadline
