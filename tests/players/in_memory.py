"""A route in memory, with clients of all four dialects in front of a backend of any dialect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any

from dragoman.adapters.base import CloseReason
from dragoman.gateway import registry
from dragoman.gateway.backends.dials import RouteDials
from dragoman.gateway.backends.target import UpstreamTarget
from dragoman.gateway.backends.upstream import Upstream
from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.link import Link, LinkEvents
from dragoman.gateway.peer import Peer
from dragoman.gateway.session.ports import BackendEvents
from dragoman.gateway.session.session import Session
from dragoman.mappings.dialect import Dialect, Translator
from tests.dialects import parts
from tests.gateway.in_memory import AT_ONCE, InMemoryGateway, InMemoryPeer
from tests.idle import settle
from tests.memory_transport import MemoryTransport

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
        _ = self.publication

    def _upstream(self, session: BackendEvents, endpoint: Endpoint) -> Upstream:
        dials = RouteDials(lambda: self.services.limits, self.services.monotonic)
        target = UpstreamTarget(endpoint=str(endpoint), dialect=self._backend, connect=self._dial, dials=dials)
        return Upstream(session.state, target, session, self.services)

    @cached_property
    def publication(self) -> InMemoryPeer:
        """The subscription of all pando clients to everything."""
        spoken = registry.dialect("pando")
        assert spoken.publication is not None
        return self._pando("publication", spoken, spoken.publication(self.time.clock, self.new_id), publishes=True)

    def caller(self, name: str) -> InMemoryPeer:
        """Return a pando client that makes calls."""
        spoken = registry.dialect("pando")
        return self._pando(name, spoken, spoken.server(self.time.clock, self.new_id), publishes=False)

    def _pando(self, name: str, spoken: Dialect, translator: Translator[Any, Any], *, publishes: bool) -> InMemoryPeer:
        transport = MemoryTransport()
        link = Link(
            Peer(id=name, dialect=spoken, attaches=False, publishes=publishes),
            transport,
            translator,
            self.services,
            LinkEvents(sink=self.router.receive, drained=self.router.drained),
        )
        peer = self.clients[name] = InMemoryPeer(transport, link)
        _ = self.services.start_task(self._serve(link), name)
        return peer

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
