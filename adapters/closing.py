"""Close an asyncio listener without losing connections that are still being accepted.

A new connection needs several rounds of the event loop to get from the kernel's queue to its protocol. If the server is
closed during that time, asyncio leaks the socket: the transport asserts that its server is open when it attaches.
Connections that are still in the kernel's queue are cut off.
"""

from __future__ import annotations

import asyncio

ARRIVING = 8  # loop rounds: a connection needs three to reach its protocol, and one more to read its handshake


async def close_server(server: asyncio.Server) -> None:
    """Stop accepting, after every connection that was made before this call has reached its protocol."""
    if not server.is_serving():
        return
    for _ in range(ARRIVING):
        await asyncio.sleep(0)
    server.close()
