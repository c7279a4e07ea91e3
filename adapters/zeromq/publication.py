"""What we publish: one XPUB socket to all subscribers, with back-pressure that can be seen.

A plain PUB drops for a subscriber whose queue is full and says nothing. XPUB_NODROP refuses the message with EAGAIN
instead, for everybody: also for those who read. So `send` waits while one of them is full, which lets the link's outbox
fill and merge; after `publish_wait` without any progress what remains of this send is dropped and counted. A count is
exact: what was counted nobody got, what was not counted was put into every subscriber's queue.

One who has stopped for good must not silence the others: when there are several, he is disconnected after
`stall_deadline` (subscribers.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import zmq

from dragoman.adapters.base import CloseReason, Limits, Sink
from dragoman.adapters.zeromq.polled import BATCH, Message
from dragoman.adapters.zeromq.sockets import Sockets
from dragoman.adapters.zeromq.subscribers import Subscribers
from dragoman.mappings.dialect import Loss

__all__ = ["Publication"]

UNSUBSCRIBED, SUBSCRIBED = 0, 1  # the first byte of what a subscriber says (ZMTP 3.0)


class Publication:
    """The transport over which frames are published, each of them one message of one part. Nothing is received."""

    def __init__(
        self, sockets: Sockets, limits: Limits, *, publish_wait: float, stall_deadline: float, send_hwm: int,
        lost: Callable[[Loss], None],
    ) -> None:  # fmt: skip
        self.peer = "subscribers"
        self.topics: set[bytes] = set()
        """The prefixes to which anybody is subscribed."""
        self.subscriptions = 0
        """How often anybody subscribed, since the beginning."""
        self.subscribed: Callable[[], None] = lambda: None
        """Called whenever anybody subscribes."""
        self.published = 0
        """Frames that every subscriber was given who wants them, since the beginning."""
        self.lost = 0
        """Frames that were not published because somebody did not read."""
        self._limits = limits
        self._publish_wait = publish_wait
        self._tell = lost
        self._sockets = sockets
        self._over = asyncio.Event()
        self.socket = sockets.socket(zmq.XPUB, {zmq.XPUB_NODROP: 1, zmq.XPUB_VERBOSE: 1, zmq.SNDHWM: send_hwm})
        self._polled = sockets.poll(self.socket, self._heard)
        self.subscribers = Subscribers(stall_deadline)
        sockets.monitor(self._polled, Subscribers.EVENTS, self.subscribers.hear)

    async def run(self, sink: Sink) -> None:
        await self._over.wait()

    def resume(self) -> None:
        """Nothing is received, so that nothing waits."""

    async def send(self, frames: Sequence[bytes]) -> None:
        done, dropped = 0, 0
        try:
            patient = True
            for frame in frames:
                placed = self._offer(frame)
                if not placed and patient:
                    placed = patient = await self._wait_for_room(frame)
                done += 1
                dropped += not placed
                if done % BATCH == 0:
                    await asyncio.sleep(0)
        finally:  # also when we are cancelled: what was not written is not published
            self._count(done - dropped, dropped + len(frames) - done)
            self._polled.sent()

    def try_send(self, frames: Sequence[bytes]) -> bool:
        return False  # a message of several parts may have to wait in its middle

    def peer_can_read(self) -> bool:
        return False

    async def close(self, reason: CloseReason = CloseReason.DONE, text: str = "") -> None:
        if not self._over.is_set():
            self._over.set()
            self._sockets.close(self._polled, self._limits.close_deadline)
            await self._sockets.release(self._limits.close_deadline)

    # --------------------------------------------------------------------------------------------------

    def _offer(self, frame: bytes) -> bool:
        if self._polled.closed:
            raise ConnectionResetError("the publication has ended")
        return self._polled.send((frame,))

    async def _wait_for_room(self, frame: bytes) -> bool:
        """Whether the frame could be written before our patience was at its end."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._publish_wait
        while (left := end - loop.time()) > 0:
            await self._polled.stirred(left)
            if self._offer(frame):
                return True
        self.subscribers.blame(loop.time())
        return False

    def _count(self, published: int, lost: int) -> None:
        self.published += published
        self.lost += lost
        if lost:
            self._tell(Loss(kind="publication", why="a subscriber does not read", count=lost))

    def _heard(self, messages: list[Message]) -> None:
        """Somebody subscribed, or the last one of a prefix unsubscribed."""
        for message in messages:
            action, topic = message[0][:1], message[0][1:]
            if action == bytes((SUBSCRIBED,)):
                self.topics.add(topic)
                self.subscriptions += 1
                self.subscribed()
            elif action == bytes((UNSUBSCRIBED,)):
                self.topics.discard(topic)
