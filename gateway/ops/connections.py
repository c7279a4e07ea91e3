"""The connections to the ops port: at most CONNECTIONS_MAX, and none that is idle for long.

aiohttp waits for a first request without a deadline. So any peer could keep a descriptor for each
connection, and the gateway shares its descriptors with its clients. A new connection closes the one that was idle
longest, so that idle ones never keep a probe out. While descriptors are short, there are at most SHORT_MAX.
"""

from __future__ import annotations

import asyncio
import time

from aiohttp import web
from aiohttp.typedefs import Handler

from dragoman.gateway.overload.descriptors import descriptor_shortage

CONNECTIONS_MAX = 64  # at once: probes, a scraper or two and some operators need ten
SHORT_MAX = 8  # at once while descriptors are short: enough for probes and an operator, a quarter of the reserve
IDLE_MAX = 30.0  # seconds without a whole request: longer than the usual 15 s between two scrapes


class OpsConnections:
    """The connections of one HTTP server."""

    def __init__(self) -> None:
        self._server: web.Server
        self._idle_since: dict[object, float] = {}
        self._busy: set[object] = set()

    def use_server(self, server: web.Server) -> None:
        """Take the server, which is made after its middlewares."""
        self._server = server

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Count a connection as busy while its request is answered."""
        connection = request.protocol
        self._busy.add(connection)
        try:
            return await handler(request)
        finally:
            self._busy.discard(connection)
            self._idle_since[connection] = time.monotonic()

    def accept(self) -> asyncio.Protocol:
        """Return the protocol of a new connection, and make room for it."""
        self.close_idle(room=1)
        return self._server()

    def close_idle(self, room: int = 0) -> None:
        """Close the connections that were idle for too long, and those idle longest until there is room."""
        now = time.monotonic()
        alive = [one for one in self._server.connections if one.transport is not None]  # and not closed yet
        self._idle_since = {one: self._idle_since.get(one, now) for one in alive}
        alive.sort(key=lambda one: (one in self._busy, self._idle_since[one]))
        most = SHORT_MAX if descriptor_shortage() else CONNECTIONS_MAX
        excess = len(alive) + room - most  # several are accepted before the first is in the list
        for number, connection in enumerate(alive):
            is_old = connection not in self._busy and now - self._idle_since[connection] > IDLE_MAX
            if is_old or number < excess:
                connection.force_close()
