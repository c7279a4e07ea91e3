"""The publications of a primary: one XPUB socket to all subscribers, with visible back-pressure.

A plain PUB silently drops messages for a subscriber whose queue is full. XPUB_NODROP refuses the message with EAGAIN
instead, for all subscribers. So `send` waits while one of them is full, which lets the link's outbox fill and merge.
After `publish_wait` without progress the rest of this send is dropped and counted. The count is exact: a counted
message reached no subscriber, any other was queued for every one.

A subscriber that has stopped reading must not silence the others. If there are several, it is disconnected after
`stall_deadline` (subscribers.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import zmq

from dragoman.adapters.base import CloseReason, Sink, Transport
from dragoman.adapters.meter import Meter
from dragoman.adapters.zeromq.polled import BATCH, Message
from dragoman.adapters.zeromq.sockets import PrimaryEvents, Sockets, ZeroMQLimits
from dragoman.adapters.zeromq.subscribers import Subscribers
from dragoman.mappings.dialect import Loss

TOPIC_MAX = 64  # bytes of a subscription, three times those of the longest real one
UNREAD = 1  # subscriptions that libzmq queues for us: it reads on, and keeps all, until the queue is empty

NOBODY = -1  # the descriptor of no connection: libzmq itself unsubscribes for one that is gone
UNSUBSCRIBED, SUBSCRIBED = 0, 1  # the first byte of a subscriber's message (ZMTP 3.0)


class Publication(Transport):
    """The transport that publishes frames, each as one message of one part. It receives nothing."""

    def __init__(self, sockets: Sockets, bounds: ZeroMQLimits, events: PrimaryEvents) -> None:
        self.peer = "subscribers"
        self.meter = Meter()
        events.topics.clear()
        self._publish_wait = bounds.publish_wait
        self._events = events
        self._sockets = sockets
        self._over = asyncio.Event()
        self.socket = sockets.socket(
            zmq.XPUB,
            {
                zmq.XPUB_NODROP: 1,
                zmq.XPUB_VERBOSE: 1,
                zmq.SNDHWM: bounds.send_hwm,
                zmq.RCVHWM: UNREAD,
                zmq.MAXMSGSIZE: 1 + TOPIC_MAX,
            },
        )
        self._polled = sockets.poll(self.socket, self._received, adds_sender=True)
        self.subscribers = Subscribers(
            bounds.stall_deadline,
            most=bounds.subscribers,
            topics=bounds.subscriptions,
            refused=lambda why: events.lost(Loss(kind="subscriber", why=why)),
        )
        self._connections = sockets.watch_port(self._polled, bounds, events, self.subscribers.note_event)

    async def run(self, sink: Sink) -> None:
        await self._over.wait()

    def resume(self) -> None:
        """Do nothing: no frames are received."""

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
        finally:  # a cancelled send must count its unwritten frames as lost too
            lost = dropped + len(frames) - done
            if lost:
                self._events.lost(Loss(kind="publication", why="a subscriber does not read", count=lost))
            self._polled.sent()

    def try_send(self, frames: Sequence[bytes]) -> bool:
        """Publish a lone frame now if every subscriber has room; `send` waits for a full one."""
        if len(frames) != 1 or self._polled.closed or not self._polled.send(frames):
            return False
        self._polled.sent()
        return True

    def discard(self) -> None:
        """Do nothing: no frames are received."""

    async def close(self, reason: CloseReason = CloseReason.DONE, text: str = "") -> None:
        if not self._over.is_set():
            self._over.set()
            self._sockets.close(self._polled, self._sockets.limits.close_deadline)
            await self._sockets.release()

    # --------------------------------------------------------------------------------------------------

    def _offer(self, frame: bytes) -> bool:
        if self._polled.closed:
            raise ConnectionResetError("the publication has ended")
        return self._polled.send((frame,))

    async def _wait_for_room(self, frame: bytes) -> bool:
        """Return True if the frame could be written within `publish_wait`."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._publish_wait
        while (left := end - loop.time()) > 0:
            await self._polled.wait_for_activity(left)
            if self._offer(frame):
                return True
        self.subscribers.disconnect_stalled(loop.time())
        return False

    def _received(self, messages: list[Message]) -> None:
        """Track the topics after a subscriber subscribed or the last one of a prefix unsubscribed."""
        self._connections.read()  # so that each subscription is that of a known connection
        for message in messages:
            action, topic, connection = message[0][:1], message[0][1:], int(message[-1] or NOBODY)
            if action == bytes((SUBSCRIBED,)):
                self._events.topics.add(topic)
                self.subscribers.subscribed(connection, topic)
                self._events.subscribed()
            elif action == bytes((UNSUBSCRIBED,)):
                self._events.topics.discard(topic)
                self.subscribers.unsubscribed(connection, topic)
