"""A route in memory whose backend is a pando: the test plays the primary and every client, and advances the
clock.

Clients are smooth, pod or pando callers; what they are sent stands in their transports.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from dragoman.adapters.base import CloseReason, Transport
from dragoman.gateway import registry
from dragoman.gateway.backends.dials import RouteDials
from dragoman.gateway.backends.target import UpstreamTarget
from dragoman.gateway.backends.upstream import Upstream
from dragoman.gateway.config.model import Limits, Route
from dragoman.gateway.endpoint import Endpoint, parse
from dragoman.gateway.ingress import Ingress
from dragoman.gateway.link import Link, LinkEvents
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.peer import Peer
from dragoman.gateway.routing.router import Router
from dragoman.gateway.session.ports import BackendEvents
from dragoman.gateway.upstreams import kind_of
from tests.gateway.in_memory import AT_ONCE, ManualClock
from tests.idle import settle
from tests.memory_transport import MemoryTransport
from tests.services import services

ROUTE = Route(name="test", listen=(parse("smooth+ws://127.0.0.1:1/ws"),), upstream=parse("pando+tcp://127.0.0.1:1"))
LIMITS = Limits(backoff_first=AT_ONCE, backoff_max=AT_ONCE)


def row(id: str, title: str = "T", updated: str = "2026-05-09T21:28:20Z", messages: int = 2) -> dict[str, object]:
    """Return a session as a primary lists it."""
    return {"id": id, "title": title, "updated_at": updated, "message_count": messages}


PANDO = registry.dialect("pando")


class InMemoryPando:
    """The pando at the other end of each connection, played by the test; it answers on the newest connection."""

    def __init__(self) -> None:
        self.primaries: list[MemoryTransport] = []
        self._answered = 0

    async def dial(self) -> Transport:
        """Accept a connection."""
        self.primaries.append(MemoryTransport())
        self._answered = 0
        return self.primaries[-1]

    def asked(self) -> list[str]:
        """The methods of all calls without an answer; for a write, the written value."""
        return [_method(call) for call in self._calls()[self._answered :]]

    def _calls(self) -> list[dict[str, Any]]:
        return [json.loads(frame) for frame in self.primaries[-1].got]

    async def answers(self, method: str, result: object = None, problem: str = "") -> dict[str, Any]:
        """Answer the oldest call, which must be of this method; return its params."""
        failed = {"code": -32000, "message": problem}
        said: dict[str, object] = {"error": failed} if problem else {"result": result}
        return await self.replies(method, said)

    async def replies(self, method: str, said: dict[str, object]) -> dict[str, Any]:
        """Answer the oldest call, which must be of this method, with a result, an error or neither; return its
        params.
        """
        call = self.call()
        assert _method(call) == method, f"{_method(call)} comes before {method}"
        self._answered += 1
        self.primaries[-1].say(json.dumps({"jsonrpc": "2.0", "id": call["id"], **said}).encode())
        await settle()
        return dict(call["params"])

    def call(self) -> dict[str, Any]:
        """The oldest call without an answer."""
        return self._calls()[self._answered]

    async def begins(self, *rows: dict[str, object]) -> None:
        """Connect the primary, and let it list these sessions."""
        await settle()
        await self.answers("instance.ping", {"status": "ok", "instance_id": "i-1", "uptime": "0s"})
        await self.answers("session.list", list(rows))

    async def replaced(self, *rows: dict[str, object]) -> None:
        """Lose the connection, and let the next primary list these sessions."""
        before = len(self.primaries)
        self.primaries[-1].hang_up()
        while len(self.primaries) == before:
            await settle()
        await self.begins(*rows)

    async def publishes(self, topic: str, /, **payload: object) -> None:
        envelope = {"instanceId": "i-1", "projectId": "", "topic": topic, "payload": payload}
        self.primaries[-1].say(topic.encode() + b"\0" + json.dumps(envelope).encode())
        await settle()


class InMemoryPandoGateway(InMemoryPando):
    """A router with its clients, and the connection to the primary."""

    def __init__(self, group: asyncio.TaskGroup, route: Route) -> None:
        super().__init__()
        self.group = group
        self.time = ManualClock()
        self.ledger = Ledger()
        self.links: list[Link] = []
        self._ids = count(1)
        self.services = services(self.time, limits=LIMITS, ledger=self.ledger, new_id=self._new_id, group=group)
        self.router = Router(route, self.services, PANDO, kind_of(PANDO, self._upstream))

    def _new_id(self) -> str:
        return f"00000000-0000-4000-8000-{next(self._ids):012d}"

    def _upstream(self, session: BackendEvents, _endpoint: Endpoint) -> Upstream:
        dials = RouteDials(lambda: self.services.limits, self.services.monotonic)
        target = UpstreamTarget(endpoint="pando", dialect=registry.dialect("pando"), connect=self.dial, dials=dials)
        return Upstream("test", target, session, self.services)

    # -- clients ---------------------------------------------------------------------------------------

    def join(self, dialect: str, *, publishes: bool = False, ingress: Ingress = Ingress()) -> MemoryTransport:  # noqa: B008  # frozen
        """Connect a client by this ingress. A pando client either makes calls or is the publication for all
        subscribers.
        """
        transport, spoken = MemoryTransport(), registry.dialect(dialect)
        translator = spoken.server(self.time.clock, self._new_id)
        if publishes:
            assert spoken.publication is not None
            translator = spoken.publication(self.time.clock, self._new_id)
        name, attaches = f"{dialect}-{len(self.links)}", dialect != "pando"
        link = Link(
            Peer(id=name, dialect=spoken, ingress=ingress, attaches=attaches, publishes=publishes),
            transport,
            translator,
            self.services,
            LinkEvents(sink=self.router.receive, drained=self.router.drained),
        )
        self.links.append(link)
        _ = self.services.start_task(self._serve(link), link.id)
        return transport

    async def _serve(self, link: Link) -> None:
        try:
            await link.run(self.router.connected)
        finally:
            self.router.gone(link)


def _method(call: dict[str, Any]) -> str:
    return str(call["params"]["method"] if call["method"] == "db.write" else call["method"])


def frames(transport: MemoryTransport) -> list[dict[str, Any]]:
    """Return the messages that a client was sent; publications lose their topics."""
    return [json.loads(frame.rpartition(b"\0")[2]) for frame in transport.got]


@asynccontextmanager
async def in_memory_pando_gateway(route: Route = ROUTE) -> AsyncIterator[InMemoryPandoGateway]:
    """Run an in-memory gateway before a pando; all its tasks have ended when the block is left."""
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        made = InMemoryPandoGateway(group, route)
        yield made
        for link in made.links:
            link.end(CloseReason.DONE)
        await made.router.stop()
