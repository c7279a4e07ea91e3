"""A connection accepted before its server closes gets a protocol: it is neither lost nor cut off."""

from __future__ import annotations

import asyncio
import socket
from typing import cast

from dragoman.adapters.closing import close_server


class Arrival(asyncio.Protocol):
    """A connection that was accepted."""

    def __init__(self, arrivals: list[asyncio.Transport]) -> None:
        self.arrivals = arrivals

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.arrivals.append(cast(asyncio.Transport, transport))  # uvloop's is one without inheriting from it


async def test_a_connection_being_accepted_when_a_server_closes_is_served_and_later_ones_are_not() -> None:
    arrivals: list[asyncio.Transport] = []
    server = await asyncio.get_running_loop().create_server(lambda: Arrival(arrivals), "127.0.0.1", 0)
    where = server.sockets[0].getsockname()
    peers = [socket.create_connection(where) for _ in range(3)]
    await close_server(server)
    assert len(arrivals) == len(peers)
    with socket.socket() as late:
        assert late.connect_ex(where) != 0
    for arrival, peer in zip(arrivals, peers, strict=True):
        arrival.close()
        peer.close()
    await asyncio.sleep(0)
