"""Bind a port at the addresses of a host."""

from __future__ import annotations

import errno
import socket
from contextlib import ExitStack

from dragoman.adapters.lookup import find_addresses

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
