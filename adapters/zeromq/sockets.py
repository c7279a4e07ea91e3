"""The sockets of one place that we dial or listen at, and the context that they share.

A context is two threads and three descriptors; one for each place makes its end certain: when the last holder lets go,
the sockets are closed and the context is terminated, in a thread because that waits for what lingers.

No socket has ZMTP heartbeats: Go peers do not answer them (docs/dialects/pando.md, section 9).
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from itertools import count

import zmq

from dragoman.adapters.base import Limits
from dragoman.adapters.zeromq.polled import Message, Polled
from dragoman.mappings.dialect import Oversize

__all__ = ["HARD_LIMIT", "OVERHEAD", "Hear", "Sockets", "oversize", "weight"]

HARD_LIMIT = 4  # times max_message: up to it a part is refused by itself, past it libzmq drops the connection
SPARE_PARTS = 2  # kept beyond the limit: a caller's identity, and the part that shows that there are too many
OVERHEAD = 64  # what an object costs beside its bytes: a flood of tiny messages counts as the memory it takes
EVENT = struct.Struct("=Hi")  # number and value: zmq_socket_monitor(3)

Hear = Callable[[int, int], None]
"""Told of a socket event: its number and its value."""


class Sockets:
    """Makes the sockets; begins with one holder."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._context = zmq.Context()
        self._polled: list[Polled] = []
        self._ears: dict[Polled, Polled] = {}  # what is monitored, and who hears of it
        self._numbers = count(1)
        self._holders = 1

    def socket(self, kind: zmq.SocketType, options: dict[int, int]) -> zmq.Socket[bytes]:
        """A socket that is bounded in all directions."""
        socket = self._context.socket(kind)
        socket.setsockopt(zmq.MAXMSGSIZE, HARD_LIMIT * self._limits.max_message)
        socket.setsockopt(zmq.LINGER, 0)  # until it is closed properly
        for option, value in options.items():
            socket.setsockopt(option, value)
        return socket

    def poll(self, socket: zmq.Socket[bytes], take: Callable[[list[Message]], None]) -> Polled:
        """Put a socket on the event loop."""
        polled = Polled(socket, take, self._limits.max_parts + SPARE_PARTS)
        self._polled.append(polled)
        return polled

    def monitor(self, polled: Polled, events: int, hear: Hear) -> None:
        """Hear what happens to the connections of a socket. Call it before the socket binds or connects."""

        def take(messages: list[Message]) -> None:
            for message in messages:
                hear(*EVENT.unpack(message[0]))

        address = f"inproc://monitor-{next(self._numbers)}"
        polled.socket.monitor(address, events)
        # libzmq's I/O thread writes events blocking, and holds a lock meanwhile that we need to stop it: never full.
        ear = self.socket(zmq.PAIR, {zmq.RCVHWM: 0})
        ear.connect(address)
        self._ears[polled] = self.poll(ear, take)

    def close(self, polled: Polled, linger: float) -> None:
        """Close one socket; what it still holds has `linger` seconds to go out."""
        ear = self._ears.pop(polled, None)
        if ear is not None and not polled.closed:
            polled.socket.monitor(None, 0)  # before its ear closes: nobody would take the events
            ear.close(0)
        polled.close(linger)

    def hold(self) -> None:
        """One more who uses these sockets."""
        self._holders += 1

    async def release(self, linger: float) -> None:
        """One less. The last one closes all sockets; what they hold has `linger` seconds to go out."""
        self._holders -= 1
        if self._holders == 0:
            for polled in self._polled:
                self.close(polled, linger)
            await asyncio.to_thread(self._context.term)


def weight(message: Message) -> int:
    """The memory that a message takes."""
    return sum(map(len, message)) + OVERHEAD * len(message)


def oversize(message: Message, limits: Limits) -> Oversize | None:
    """Return what stands for a message that has too many parts or bytes; many small parts are large too."""
    if len(message) > limits.max_parts:
        return Oversize(size=len(message), limit=limits.max_parts, unit="parts")
    size = len(message[0]) if len(message) == 1 else weight(message)
    return Oversize(size=size, limit=limits.max_message) if size > limits.max_message else None
