"""The ZeroMQ context that all connections and listeners of an event loop share.

A context has two threads and a few descriptors. 100 contexts are 200 threads that compete for a core, so there is one
(docs/performance.md). Each socket closes with a linger of its own. Only a listener with CURVE has its own context,
because libzmq has one authenticator for each context.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from weakref import WeakKeyDictionary

import zmq

from dragoman.adapters.zeromq.curve import CurveServer

SOCKETS_MAX = 16_384  # six for each connection or listener; a context of this size takes 0.2 MB

_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, CountedContext] = WeakKeyDictionary()


class CountedContext:
    """A ZeroMQ context with the number of its users. The last user terminates it."""

    def __init__(self, sockets_max: int) -> None:
        self._context = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, sockets_max)
        self._users = 0
        self._monitors = count(1)

    def use(self) -> None:
        """Add a user."""
        self._users += 1

    def create_socket(self, kind: zmq.SocketType) -> zmq.Socket[bytes]:
        """Create a socket of this kind; raise ZMQError if there are too many sockets or descriptors."""
        return self._context.socket(kind)

    def monitor_address(self) -> str:
        """Return an address for the events of one socket, which no other socket of this context has."""
        return f"inproc://monitor-{next(self._monitors)}"

    def authenticate(self, curve: CurveServer) -> Callable[[], None]:
        """Accept only the clients of this server in every encrypted listener of the context; return what stops that."""
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


def shared_context() -> CountedContext:
    """Return the context of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _shared:
        _shared[loop] = CountedContext(SOCKETS_MAX)
    return _shared[loop]
