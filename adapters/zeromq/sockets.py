"""The ZeroMQ sockets of one connection or listener, and the context that all of an event loop share.

A context has two threads and a few descriptors. 100 contexts are 200 threads that compete for a core, so there is one
(docs/performance.md). Only a listener with CURVE has its own context, because libzmq has one authenticator for each.

When the last holder releases them, the sockets are closed, each with a linger, and they leave their context. Bound
sockets leave it when their lingering messages are sent or given up and their ports are free. The last event of a
socket's monitor tells that. The last to leave the context waits for all lingering messages.

No socket has ZMTP heartbeats: Go peers do not answer them (docs/dialects/pando.md, section 9). TCP keepalives detect a
peer that vanished without a word (a lost network, a reset machine). They also keep an idle connection known to a NAT.

libzmq accepts whatever comes, and has no option that bounds its connections. So a connection that it has accepted with
a descriptor which the process keeps for others is shut down. Else connections that say nothing would take the last
descriptors, and no listener of the process could accept a client any more.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
import sys
from collections.abc import Callable
from itertools import count
from threading import Event, Thread
from weakref import WeakKeyDictionary

import zmq
from msgspec import Struct, field

from dragoman.adapters.base import Accept, TransportLimits, do_nothing
from dragoman.adapters.inbound import FRAME_OVERHEAD
from dragoman.adapters.zeromq.curve import OVERHEAD as CURVE_OVERHEAD
from dragoman.adapters.zeromq.curve import CurveClient, CurveServer
from dragoman.adapters.zeromq.polled import BATCH, Message, Polled
from dragoman.mappings.dialect import HEAD, Loss, Oversize

SOCKETS_MAX = 16_384  # six for each connection or listener; a context of this size takes 0.2 MB
HARD_LIMIT = 4  # times max_message: below it only the message is refused, above it libzmq drops the connection
SPARE_PARTS = 2  # kept above the limit: a caller's identity, and one part that reveals the excess
EVENT = struct.Struct("=Hi")  # number and value: zmq_socket_monitor(3)

THREADS = 2  # threads that libzmq starts with the first socket of a context
STOP_MAX = 1.0  # seconds beyond its linger in which libzmq ends a socket, on a busy machine
LISTENING = frozenset((zmq.ROUTER, zmq.XPUB))
KEEPALIVE = {  # an idle peer that vanished is noticed after 2 minutes; NATs forget a connection after 4 or more
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: 60,  # seconds
    zmq.TCP_KEEPALIVE_INTVL: 15,
    zmq.TCP_KEEPALIVE_CNT: 4,
}
# With a domain for authentication libzmq refuses peers of ZMTP 1 and 2, which cannot authenticate; peers of ZMTP 3 are
# accepted without an authenticator. A peer of ZMTP 1 can abort this process (libzmq 4.3.5, zmtp_engine.cpp:422).
ZMTP_3_ONLY = b"dragoman"

# messages that each CURVE client has in its queue forever: libzmq puts the client's key there first, and does not
# count it as read (libzmq 4.3.5, pipe.cpp)
CREDENTIAL = 1

PORT_EVENTS = int(zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_MONITOR_STOPPED)

OnSocketEvent = Callable[[int, int], None]
"""Handle a socket event, given its number and value."""


class ZeroMQLimits(Struct, frozen=True, kw_only=True, gc=False):
    """The bounds of a ZeroMQ listener, beside TransportLimits. Times are in seconds.

    `publish_wait`: how long a publication waits for a full subscriber. `stall_deadline`: when a subscriber that reads
    nothing is disconnected, if there are others. `send_hwm`: messages queued for one subscriber. `answered`: when a
    silent caller that has its answers is removed, and `idle`: one that waits for an answer. `callers`: the largest
    number of callers. `subscribers`: connections for publications at once. `subscriptions`: topics of one of them;
    libzmq holds about 40 bytes of memory for each byte of a topic. `descriptors`: the first descriptor that is kept for
    others; a connection from this number on is shut down.
    """

    publish_wait: float = 0.2  # docs/design.md, section 6
    stall_deadline: float = 10.0  # a busy terminal reads again far sooner; a stopped one never does
    send_hwm: int = 1000  # libzmq's default; a full subscriber must read half of it before it takes more
    # a pando client ends each call after 10 s (docs/dialects/pando.md, section 5)
    idle: float = 60.0
    answered: float = 5.0  # a view makes one call and is abandoned; 1,000 of them held 40 MiB, with their connections
    callers: int = 1024  # a view abandons one every few seconds, and each stays for `answered`
    subscribers: int = 256  # a project has a terminal and a few viewers
    subscriptions: int = 32  # a real subscriber has at most ten
    descriptors: int = sys.maxsize  # all may be used


class PrimaryEvents(Struct, frozen=True, kw_only=True):
    """Functions that a ZeroMQ listener calls.

    `accept` is called with the Publication, and with each new Caller. `lost` is called with every undelivered message,
    `subscribed` after each subscription. `topics` is kept up to date: the prefixes that have a subscriber.
    """

    accept: Accept
    lost: Callable[[Loss], None]
    subscribed: Callable[[], None] = do_nothing
    topics: set[bytes] = field(default_factory=set)


_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, CountedContext] = WeakKeyDictionary()


class CountedContext:
    """A ZeroMQ context with the number of its users. The last user terminates it."""

    def __init__(self, sockets_max: int) -> None:
        self._context = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, sockets_max)
        self._users = 0
        self._has_threads = False
        self._monitors = count(1)

    def use(self) -> None:
        """Add a user."""
        self._users += 1

    def create_socket(self, kind: zmq.SocketType) -> zmq.Socket[bytes]:
        """Create a socket of this kind; raise ZMQError if there are too many sockets, descriptors or threads."""
        if not self._has_threads:
            check_threads(THREADS)
            self._has_threads = True
        return self._context.socket(kind)

    def monitor_address(self) -> str:
        """Return an address for the events of one socket, which no other socket of this context has."""
        return f"inproc://monitor-{next(self._monitors)}"

    def authenticate(self, curve: CurveServer) -> Callable[[], None]:
        """Let this server authenticate the clients of all encrypted listeners; return a function that stops it."""
        from zmq.auth.asyncio import AsyncioAuthenticator  # needed only where CURVE is configured

        authenticator = AsyncioAuthenticator(self._context)
        authenticator.configure_curve_callback("*", curve)
        authenticator.start()
        return authenticator.stop

    async def leave(self) -> None:
        """Remove a user whose sockets are closed. After the last one, wait until all messages are sent or given up."""
        self._users -= 1
        if self._users == 0:
            for loop in [loop for loop, context in _shared.items() if context is self]:
                del _shared[loop]  # a new connection may come while this context ends
            await asyncio.to_thread(self._context.term)


def check_threads(needed: int) -> None:
    """Raise ZMQError if the system cannot start `needed` further threads.

    libzmq starts those of a context with its first socket, and ends the process if it cannot.
    """
    end, started = Event(), list[Thread]()
    try:
        for _ in range(needed):
            thread = Thread(target=end.wait, name="zeromq:check", daemon=True)
            thread.start()
            started.append(thread)
    except RuntimeError as error:
        raise zmq.ZMQError(errno.EAGAIN, "the system cannot start a thread") from error
    finally:
        end.set()
        for thread in started:
            thread.join()


def shared_context() -> CountedContext:
    """Return the context of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _shared:
        _shared[loop] = CountedContext(SOCKETS_MAX)
    return _shared[loop]


class Sockets:
    """Creates the sockets of a connection or listener and counts their holders; begins with one holder.

    With `curve` their connections are encrypted. A CurveServer has a context of its own, in which it accepts clients.
    """

    def __init__(
        self, limits: TransportLimits, context: CountedContext, curve: CurveServer | CurveClient | None
    ) -> None:
        self.limits = limits
        self.curve = curve
        self._context = context
        context.use()
        self._stop_authenticator = context.authenticate(curve) if isinstance(curve, CurveServer) else None
        self._polled: list[Polled] = []
        self._monitors: dict[Polled, Polled] = {}  # monitored socket -> the socket that receives its events
        self._ends: list[asyncio.Future[None]] = []  # one for each bound socket, done when its port is free
        self._holders = 1

    def socket(self, kind: zmq.SocketType, options: dict[int, int]) -> zmq.Socket[bytes]:
        """Create a socket with bounded queues and message size; raise ZMQError if there are too many sockets."""
        socket = self._context.create_socket(kind)
        largest = options.get(zmq.MAXMSGSIZE, HARD_LIMIT * self.limits.max_message)
        socket.setsockopt(zmq.LINGER, 0)  # `close` sets its own
        if self.curve is None and kind in LISTENING:
            socket.setsockopt(zmq.ZAP_DOMAIN, ZMTP_3_ONLY)
        for option, value in (KEEPALIVE | options).items():
            socket.setsockopt(option, value)
        if self.curve is not None and kind != zmq.PAIR:  # a PAIR does not leave the process
            largest += CURVE_OVERHEAD
            for option, secured in self.curve.options.items():
                socket.setsockopt(option, secured)
            if isinstance(self.curve, CurveServer) and zmq.RCVHWM in options:
                socket.setsockopt(zmq.RCVHWM, options[zmq.RCVHWM] + CREDENTIAL)
        socket.setsockopt(zmq.MAXMSGSIZE, largest)
        return socket

    def poll(
        self,
        socket: zmq.Socket[bytes],
        take: Callable[[list[Message]], None],
        *,
        adds_sender: bool = False,
        batch: int = BATCH,
    ) -> Polled:
        """Read and write a socket on the event loop; `adds_sender` and `batch` are those of `Polled`."""
        polled = Polled(socket, take, self.limits.max_parts + SPARE_PARTS, adds_sender=adds_sender, batch=batch)
        self._polled.append(polled)
        return polled

    def monitor(self, polled: Polled, events: int, on_event: OnSocketEvent) -> Polled:
        """Call `on_event` for each connection event of a socket. Call this before the socket binds or connects.

        Return the socket that receives the events.
        """

        def take(messages: list[Message]) -> None:
            for message in messages:
                on_event(*EVENT.unpack(message[0]))

        address = self._context.monitor_address()
        # libzmq's I/O thread blocks on a full event queue, and holds a lock that closing needs: so it is unbounded. It
        # blocks without a receiver too: so that is there before the first event.
        monitor = self.socket(zmq.PAIR, {zmq.RCVHWM: 0})
        receiver = self.poll(monitor, take)
        monitor.connect(address)
        polled.socket.monitor(address, events)
        self._monitors[polled] = receiver
        return receiver

    def watch_port(
        self, polled: Polled, bounds: ZeroMQLimits, events: PrimaryEvents, on_event: OnSocketEvent
    ) -> Polled:
        """Like `monitor`, for a socket that will be bound: `release` waits until its port is free.

        A connection with a descriptor that is kept for others is shut down, and `events.lost` is called.
        """
        ended = asyncio.get_running_loop().create_future()

        def note_end(event: int, value: int) -> None:
            if event == zmq.EVENT_MONITOR_STOPPED:
                self._monitors.pop(polled).close(0)
                ended.set_result(None)
            elif not polled.closed and (event != zmq.EVENT_ACCEPTED or value < bounds.descriptors):
                on_event(event, value)
            elif not polled.closed and refuse_connection(polled.socket, value):
                events.lost(Loss(kind="connection", why=REASON))

        self._ends.append(ended)
        return self.monitor(polled, PORT_EVENTS, note_end)

    def close(self, polled: Polled, linger: float) -> None:
        """Close one socket; queued messages have `linger` seconds to be sent."""
        monitor = self._monitors.pop(polled, None) if not self._ends else None  # it tells when the port is free
        if monitor is not None and not polled.closed:
            polled.socket.monitor(None, 0)  # stop the events before their receiver closes
            monitor.close(0)
        polled.close(linger)

    def hold(self) -> None:
        """Add a holder of these sockets."""
        self._holders += 1

    async def release(self, linger: float | None = None) -> None:
        """Remove a holder. The last one closes all sockets.

        Queued messages have `linger` seconds to be sent, by default the close deadline.
        """
        linger = self.limits.close_deadline if linger is None else linger
        self._holders -= 1
        if self._holders == 0:
            for polled in self._polled:
                if not self._ends or polled not in self._monitors.values():
                    self.close(polled, linger)
            try:
                if self._ends:
                    await asyncio.wait(self._ends, timeout=linger + STOP_MAX)
            finally:  # also if this task is cancelled while it waits
                if self._stop_authenticator is not None:
                    self._stop_authenticator()
                await self._context.leave()


def tcp_address(host: str, port: int) -> str:
    """Return the address of a port as libzmq reads it."""
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def use_ipv6(socket: zmq.Socket[bytes], address: str) -> None:
    """Let a socket use this address if it is one of IPv6: libzmq refuses them by default."""
    if "[" in address:
        socket.setsockopt(zmq.IPV6, 1)


def oversize(message: Message, limits: TransportLimits) -> Oversize | None:
    """Return an Oversize if the message has too many parts or bytes, else None. Many small parts count with their
    overhead.
    """
    if len(message) > limits.max_parts:
        return Oversize(size=len(message), limit=limits.max_parts, name="message_parts")
    size = len(message[0]) if len(message) == 1 else sum(map(len, message)) + FRAME_OVERHEAD * len(message)
    if size <= limits.max_message:
        return None
    return Oversize(size=size, limit=limits.max_message, head=message[-1][:HEAD])


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
