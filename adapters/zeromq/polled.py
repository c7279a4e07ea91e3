"""A ZeroMQ socket on the event loop, read and written without blocking.

The socket's file descriptor only signals that its I/O thread has sent a command ("data to read", "room to write"). Any
call that processes the command clears the signal, a send as well as a receive. So there are three rules:

1. When the descriptor is readable, receive until nothing is left, or schedule the next read. EAGAIN tells that nothing
is left. After a lone message `zmq_poll` is asked instead, in a third of the time of that exception. The option EVENTS
takes four times as long as `zmq_poll`, because pyzmq looks it up in an enum.

2. After a send, even a failed one, check for data to receive: the send may have cleared the signal.

3. A sender that waits for room retries at every signal and after a short time: another call may have cleared its
signal.

zmq.asyncio does the same with a future for each message, which costs five times as much (docs/measurements.md,
section 2c).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import zmq
from zmq import zmq_poll

BATCH = 256  # messages in a row: about 0.2 ms, then other tasks run
BYTES = 1 << 20  # bytes in a row: 0.3 ms to copy, and as much as the link acts on in one step
SLICE = 1024  # parts in a row: four for each message of a batch, more than any real message has
RETRY = 0.1  # seconds: the longest delay after another call has cleared the signal

Message = tuple[bytes, ...]
"""The parts of one message."""


class Polled:
    """A socket that passes received messages to `take` in batches of at most `batch`, and can send.

    If a message has more than `most_parts` parts, only that many are kept; the others are read and dropped. With
    `adds_sender`, each message ends with a further part: the descriptor of the connection that it came by.
    """

    def __init__(
        self,
        socket: zmq.Socket[bytes],
        take: Callable[[list[Message]], None],
        most_parts: int,
        *,
        adds_sender: bool = False,
        batch: int = BATCH,
    ) -> None:
        self._adds_sender, self._batch = adds_sender, batch
        self.socket = socket
        self._send = super(zmq.Socket, socket).send  # its own `send` takes twice as long, for options of other sockets
        self._input = [(socket, zmq.POLLIN)]  # what `zmq_poll` is asked for
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
        """Continue reading, beginning with messages that arrived while paused."""
        if not self._reading and not self.closed:
            self._reading = True
            self._loop.add_reader(self._descriptor, self.read)
            self._read_soon()

    def pause(self) -> None:
        """Stop reading. Messages stay in the socket; above its high water mark the peers wait."""
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._descriptor)
            if self._again is not None:
                self._again.cancel()
                self._again = None

    def read(self) -> None:
        """Pass one batch of messages to `take`, and read the others soon; the event loop calls this."""
        if self._again is not None:
            self._again.cancel()
            self._again = None
        messages, more = self.receive()
        if more:
            self._read_soon()
        if self._waiters:
            self._wake_waiters()
        if messages:
            self._take(messages)

    def receive(self) -> tuple[list[Message], bool]:
        """Return a batch of received messages, and True if there may be more to read.

        Large messages and messages of very many parts take several calls, so that no peer can block the event loop.
        """
        messages: list[Message] = []
        if self.closed:
            return messages, False
        receive, parts, most, size = self.socket.recv, self._parts, self._most_parts, 0
        try:
            for _ in range(SLICE):
                frame = receive(zmq.NOBLOCK, copy=False)  # the frame knows `more`, which is cheaper than getsockopt
                if len(parts) < most:
                    parts.append(frame.bytes)
                if not frame.more:
                    if self._adds_sender:
                        parts.append(_sender(frame))
                    messages.append(tuple(parts))
                    parts.clear()
                    if len(messages) == self._batch:
                        break
                    if len(messages) == 1 and not zmq_poll(self._input, 0):
                        return messages, False
                    size += sum(map(len, messages[-1]))
                    if size > BYTES:
                        break
        except zmq.Again:
            return messages, False
        except zmq.ContextTerminated:
            # The context ends only once this socket is closed; libzmq told too late that its port is free.
            self.close(0)
            return messages, False
        return messages, True

    def send(self, parts: Sequence[bytes]) -> bool:
        """Send one message and return True, or False if there is no room. Call `sent` after the last message."""
        for is_last in (False, True):
            try:
                if len(parts) == 1:
                    self._send(parts[0], zmq.NOBLOCK)
                else:
                    self.socket.send_multipart(parts, zmq.NOBLOCK)
            except zmq.Again:
                if not is_last:
                    self._look()  # this may clear the signal that there is room, so the send is tried again
            else:
                return True
        return False

    def sent(self) -> None:
        """Check for data to receive, as a send may have cleared the signal."""
        if not self.closed and zmq_poll(self._input, 0):
            self._read_soon()

    async def wait_for_activity(self, most: float = RETRY) -> None:
        """Wait until an event on this socket may have made room, at most `most` seconds."""
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            await asyncio.wait((waiter,), timeout=min(most, RETRY))
        finally:
            if not waiter.done():
                waiter.cancel()
                self._waiters.remove(waiter)

    def close(self, linger: float) -> None:
        """Close the socket; queued messages have `linger` seconds to be sent."""
        if not self.closed:
            self.pause()
            self.closed = True
            self.socket.close(linger=round(linger * 1000))
            self._wake_waiters()

    # --------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        if self._waiters or zmq_poll(self._input, 0):
            self._read_soon()

    def _read_soon(self) -> None:
        if self._again is None and self._reading:
            self._again = self._loop.call_soon(self.read)

    def _wake_waiters(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _sender(frame: zmq.Frame) -> bytes:
    """Return the descriptor of the connection that a message came by; b"" if libzmq itself has made the message."""
    try:
        return str(frame.get("__fd")).encode()
    except zmq.ZMQError:
        return b""
