"""One ZeroMQ socket on the event loop, read and written without ever blocking.

A socket's file descriptor says only that its I/O thread has sent a command ("there is something to read", "there is
room again"). Whatever call processes the command takes the signal away, a send as well as a receive. Three rules
follow, and all of them are kept here:

1. When the descriptor is readable, receive until EAGAIN. Who stops before comes back by himself.
2. After a send, also one that failed, look whether there is something to receive: it may have taken the signal.
3. Who waits for room is woken by every signal, tries again, and does not wait for ever: another's call may have taken
   the one that was his.

zmq.asyncio does the same with a future for each message, which costs five times as much
(docs/performance.md, section 2c).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import zmq

__all__ = ["BATCH", "SLICE", "Message", "Polled"]

BATCH = 256  # messages in a row: about 0.2 ms, and then it is the turn of others
SLICE = 1024  # parts in a row: four for each message of a batch, more than any real message has
RETRY = 0.1  # seconds: the most that a signal costs which somebody else's call took away

Message = tuple[bytes, ...]
"""The parts of one message."""


class Polled:
    """A socket that gives what it receives to `take`, in batches, and can be asked to send.

    Of a message with more than `most_parts` parts only so many are kept; the others are read and dropped.
    """

    def __init__(self, socket: zmq.Socket[bytes], take: Callable[[list[Message]], None], most_parts: int) -> None:
        self.socket = socket
        self.closed = False
        self._take = take
        self._most_parts = most_parts
        self._parts: list[bytes] = []  # of the message that is being read
        self._loop = asyncio.get_running_loop()
        self._descriptor = int(socket.getsockopt(zmq.FD))
        self._waiters: list[asyncio.Future[None]] = []
        self._again: asyncio.Handle | None = None
        self._reading = False
        self.resume()

    def resume(self) -> None:
        """Read on; also what came while the signal was not heard."""
        if not self._reading and not self.closed:
            self._reading = True
            self._loop.add_reader(self._descriptor, self._ready)
            self._soon()

    def pause(self) -> None:
        """Leave in the socket what is there: past its high water mark the peers wait."""
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._descriptor)
            if self._again is not None:
                self._again.cancel()
                self._again = None

    def receive(self) -> tuple[list[Message], bool]:
        """Return a batch of messages that have arrived, and whether there may be more to read.

        A message of very many parts takes several calls, so that one peer cannot block the event loop.
        """
        messages: list[Message] = []
        if self.closed:
            return messages, False
        receive, parts, most = self.socket.recv, self._parts, self._most_parts
        try:
            for _ in range(SLICE):
                frame = receive(zmq.NOBLOCK, copy=False)  # knows `more`: cheaper than to ask the socket for it
                if len(parts) < most:
                    parts.append(frame.bytes)
                if not frame.more:
                    messages.append(tuple(parts))
                    parts.clear()
                    if len(messages) == BATCH:
                        break
        except zmq.Again:
            return messages, False
        return messages, True

    def send(self, parts: Sequence[bytes]) -> bool:
        """Hand over one message; False when there is no room. Call `sent` after the last one."""
        if self._try(parts):
            return True
        self._look()
        return self._try(parts)  # looking may have taken the signal that there is room

    def sent(self) -> None:
        """Look for what the signal said that a send has taken."""
        if not self.closed:
            self._look()

    async def stirred(self, most: float = RETRY) -> None:
        """Wait until something happened on this socket that may have made room."""
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            await asyncio.wait((waiter,), timeout=min(most, RETRY))
        finally:
            if not waiter.done():
                waiter.cancel()
                self._waiters.remove(waiter)

    def close(self, linger: float) -> None:
        """Close the socket; what it still holds has `linger` seconds to go out."""
        if not self.closed:
            self.pause()
            self.closed = True
            self.socket.close(linger=round(linger * 1000))
            self._stir()

    # --------------------------------------------------------------------------------------------------

    def _try(self, parts: Sequence[bytes]) -> bool:
        try:
            if len(parts) == 1:
                self.socket.send(parts[0], zmq.NOBLOCK)
            else:
                self.socket.send_multipart(parts, zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def _look(self) -> None:
        if self._waiters or int(self.socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            self._soon()

    def _soon(self) -> None:
        if self._again is None and self._reading:
            self._again = self._loop.call_soon(self._ready)

    def _ready(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
        messages, more = self.receive()
        if more:
            self._soon()
        self._stir()
        if messages:
            self._take(messages)

    def _stir(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
