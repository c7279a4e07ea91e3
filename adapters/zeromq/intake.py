"""One socket that we dialled: its connection, and what it brought that nobody has asked for yet.

It is read at all times. Past `receive_high` what comes is dropped and counted, and a Missed stands in its place. Once
the connection is lost nobody is stalled by us any more: then it is read only when asked.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable

import zmq

from adapters.base import Limits
from adapters.zeromq.polled import Message
from adapters.zeromq.sockets import Sockets, oversize, weight
from mappings.dialect import Frame, Missed, Parts

__all__ = ["Intake"]

NEVER = 3_600_000  # ms before libzmq would connect again by itself

FAILED = zmq.EVENT_CONNECT_RETRIED | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
EVENTS = zmq.EVENT_CONNECTED | zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED | FAILED


class Intake:
    """Gives frames to `take`, and calls `lost` when the connection ends."""

    def __init__(
        self, channel: str, kind: zmq.SocketType, options: dict[int, int], sockets: Sockets, limits: Limits, *,
        take: Callable[[list[Frame]], None], lost: Callable[[], None],
    ) -> None:  # fmt: skip
        self.missed = 0
        """Messages that were dropped since the beginning."""
        self._channel = channel
        self._limits = limits
        self._take = take
        self._lost = lost
        self._waiting = 0  # memory of what was given and not asked for
        self._dropped = 0  # messages since then
        self._reached = False  # somebody accepted the connection
        self._connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        socket = sockets.socket(kind, {zmq.RECONNECT_IVL: NEVER, **options})
        self.polled = sockets.poll(socket, self._arrived)
        sockets.monitor(self.polled, EVENTS, self._hear)

    async def connect(self, address: str) -> None:
        """Connect and shake hands; OSError when nobody is there, or somebody who does not speak ZMTP."""
        try:
            self.polled.socket.connect(address)
        except zmq.ZMQError as error:
            raise OSError(error.errno, f"{address}: {error.strerror}") from error
        try:
            await self._connected
        except OSError as error:
            raise type(error)(error.errno, f"{address}: {error.strerror}") from error

    def asked(self) -> list[Frame]:
        """The link has asked, and has all that waited; what it missed meanwhile."""
        dropped, self._dropped, self._waiting = self._dropped, 0, 0
        return [Missed(channel=self._channel, count=dropped)] if dropped else []

    def pull(self) -> bool:
        """Read some more of what a lost connection has brought; return whether there may be more."""
        messages, more = self.polled.receive()
        self._arrived(messages)
        return more

    # --------------------------------------------------------------------------------------------------

    def _arrived(self, messages: list[Message]) -> None:
        channel, limits, room = self._channel, self._limits, self._limits.receive_high
        frames: list[Frame] = []
        waiting = self._waiting
        for number, message in enumerate(messages):
            if waiting > room:
                dropped = len(messages) - number
                self._dropped += dropped
                self.missed += dropped
                break
            waiting += weight(message)
            frames.append(oversize(message, limits) or Parts(channel, b"", message))
        self._waiting = waiting
        if frames:
            self._take(frames)

    def _hear(self, event: int, value: int) -> None:
        if self._connected.done():
            if event == zmq.EVENT_DISCONNECTED:
                self._lost()
        elif event == zmq.EVENT_CONNECTED:
            self._reached = True
        elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self._connected.set_result(None)
        elif self._reached:
            self._connected.set_exception(ConnectionAbortedError(errno.ECONNABORTED, "no ZeroMQ socket that fits"))
        else:
            self._connected.set_exception(ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED)))
