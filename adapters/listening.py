"""Bind a port at the addresses of a host, and close a listener without losing connections that are being accepted.

A new connection needs several rounds of the event loop to get from the kernel's queue to its protocol. If the server is
closed during that time, asyncio leaks the socket: the transport asserts that its server is open when it attaches.
Connections that are still in the kernel's queue are cut off.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import ExitStack

from dragoman.adapters.lookup import find_addresses

ARRIVING = 8  # loop rounds: a connection needs three to reach its protocol, and one more to read its handshake
NOT_OURS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # errors of `bind` and `socket`: the address is of another machine


def bind_host(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen at each address of a host, all at one port; raise OSError if there are none.

    Addresses that this machine does not have are left out: in most containers `localhost` is also ::1, although they
    have no IPv6. With port 0 the system chooses the port.
    """
    bound: list[socket.socket] = []
    failure: OSError | None = None
    with ExitStack() as stack:
        for family, address in dict.fromkeys(find_addresses(host, socket.AF_UNSPEC, socket.AI_PASSIVE)):
            place = (address, bound[0].getsockname()[1] if bound else port)
            try:
                bound.append(stack.enter_context(socket.create_server(place, family=family)))
            except OSError as error:
                if error.errno not in NOT_OURS:
                    raise
                failure = error
        if failure is not None and not bound:
            raise failure
        stack.pop_all()
    return bound


async def close_server(server: asyncio.Server) -> None:
    """Stop accepting, after every connection that was made before this call has reached its protocol."""
    if not server.is_serving():
        return
    for _ in range(ARRIVING):
        await asyncio.sleep(0)
    server.close()
