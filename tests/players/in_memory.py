"""A route in memory, with clients of all four dialects in front of a backend of any dialect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from dragoman.adapters.base import CloseReason
from dragoman.gateway import registry
from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.session.session import Session
from tests.dialects import parts
from tests.gateway.in_memory import AT_ONCE, InMemoryGateway, InMemoryPeer
from tests.idle import settle

LIMITS = Limits(backoff_first=AT_ONCE, backoff_max=AT_ONCE)


class AnyBackendGateway(InMemoryGateway):
    """The in-memory gateway with a backend of any dialect, also pando; the players check the order of messages."""

    def __init__(
        self, group: asyncio.TaskGroup, backend: str, *, upstream: Endpoint | None = None, keeps: bool = True
    ) -> None:
        super().__init__(group, LIMITS, "coalesce", upstream or parts(backend).upstream, keeps=keeps)
        self.backend = backend
        self.rest: Callable[[], Awaitable[None]] = settle
        """Lets everything run until nobody has more to say."""
        self.publication = self.join("publication", dialect="pando")
        """The subscription of all pando clients to everything."""

    def caller(self, name: str) -> InMemoryPeer:
        """Return a pando client that makes calls."""
        return self.join(name, dialect="pando", calls=True)

    def public(self, session: Session, dialect: str) -> str:
        """Return the id under which clients of this dialect know a session."""
        return registry.dialect(dialect).public_ids(session.state.id, session.state.ids)[0]

    async def end(self) -> None:
        for peer in self.clients.values():
            peer.link.end(CloseReason.DONE)
        await self.router.stop()


@asynccontextmanager
async def any_backend_gateway(backend: str) -> AsyncIterator[AnyBackendGateway]:
    """Run a gateway in memory; its tasks have ended when the block is left."""
    async with asyncio.timeout(50), asyncio.TaskGroup() as group:
        made = AnyBackendGateway(group, backend)
        try:
            yield made
        finally:
            await made.end()
