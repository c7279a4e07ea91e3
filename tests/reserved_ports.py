"""Ports of this machine that a test keeps, also while nothing listens at them.

A port that was free a moment ago may be anybody's: the system gives it to whoever asks for any port, or for a way out.
One that is bound is given to nobody; as it is bound for reuse, a listener that names it gets it all the same, and who
dials it before finds nobody there.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


def reserve(port: int) -> socket.socket:
    """Reserve a port of loopback, 0 for any, until the socket is closed; raise OSError if it is in use."""
    keeper = socket.socket()
    try:
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind(("127.0.0.1", port))
    except BaseException:
        keeper.close()
        raise
    return keeper


@contextmanager
def reserved_port(neighbours: int = 0) -> Iterator[int]:
    """Return a reserved port with this many free ones after it."""
    while True:
        with ExitStack() as stack:
            port = int(stack.enter_context(reserve(0)).getsockname()[1])
            try:
                for more in range(neighbours):
                    stack.enter_context(reserve(port + 1 + more))
            except (OSError, OverflowError):  # it is somebody's, or the last one had no neighbour
                continue
            yield port
            return
