"""The end of a listener of asyncio's, without losing who is on the way in.

A connection takes some rounds of the loop from the kernel's queue to its protocol. When its server is closed meanwhile
asyncio loses the socket, which stays open with nobody at it: a transport asserts that its server is open when it
attaches. And who is still in the queue then is cut off.
"""

from __future__ import annotations

import asyncio

__all__ = ["close_server"]

ARRIVING = 8  # rounds: three to the protocol, seven to the answer of a WebSocket handshake that was sent with it


async def close_server(server: asyncio.AbstractServer) -> None:
    """Stop accepting, once everybody is in who has connected by now."""
    for _ in range(ARRIVING):
        await asyncio.sleep(0)
    server.close()
