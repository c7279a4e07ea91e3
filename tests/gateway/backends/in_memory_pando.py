"""A route in memory whose backend is a pando: the test plays the primary and every client, and advances the
clock.

Clients are smooth, pod or pando callers; what they are sent stands in their transports.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dragoman.adapters.base import Transport
from dragoman.gateway.endpoint import parse
from dragoman.gateway.ingress import Ingress
from tests.gateway.in_memory import LIMITS, InMemoryGateway
from tests.gateway.smooth_client_messages import ask
from tests.idle import settle
from tests.memory_transport import MemoryTransport

UPSTREAM = parse("pando+tcp://127.0.0.1:1")


def row(id: str, title: str = "T", updated: str = "2026-05-09T21:28:20Z", messages: int = 2) -> dict[str, object]:
    """Return a session as a primary lists it."""
    return {"id": id, "title": title, "updated_at": updated, "message_count": messages}


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

    async def answers_each(self, method: str, result: object) -> None:
        """Answer all calls, which must be of this method, until none is left."""
        while self.asked():
            await self.answers(method, result)

    async def replies(self, method: str, said: dict[str, object]) -> dict[str, Any]:
        """Answer the oldest call, which must be of this method, with a result, an error or neither; return its
        params.
        """
        call = self.call()
        assert _method(call) == method, f"{_method(call)} comes before {method}"
        self._answered += 1
        await self.primaries[-1].says(json.dumps({"jsonrpc": "2.0", "id": call["id"], **said}).encode())
        return dict(call["params"])

    def call(self) -> dict[str, Any]:
        """The oldest call without an answer."""
        return self._calls()[self._answered]

    async def begins(self, *rows: dict[str, object]) -> None:
        """Connect the primary, and let it list these sessions."""
        await settle()
        await self.answers("instance.ping", {"status": "ok", "instance_id": "i-1", "uptime": "0s"})
        await self.answers("session.list", list(rows))

    async def opens(self, history: object, *rows: dict[str, object]) -> None:
        """Begin with these sessions, and answer with this history of the one that is looked at."""
        await self.begins(*rows)
        await self.answers("message.list", history)

    async def replaced(self, *rows: dict[str, object]) -> None:
        """Lose the connection, and let the next primary list these sessions."""
        before = len(self.primaries)
        self.primaries[-1].hang_up()
        while len(self.primaries) == before:
            await settle()
        await self.begins(*rows)

    async def publishes(self, topic: str, /, **payload: object) -> None:
        envelope = {"instanceId": "i-1", "projectId": "", "topic": topic, "payload": payload}
        await self.primaries[-1].says(topic.encode() + b"\0" + json.dumps(envelope).encode())


class InMemoryPandoGateway(InMemoryPando):
    """A router with its clients, and the connection to the primary; `options` are further keys of the route."""

    def __init__(self, group: asyncio.TaskGroup, **options: Any) -> None:
        super().__init__()
        self.gateway = InMemoryGateway(group, LIMITS, "coalesce", UPSTREAM, dial=self.dial, **options)
        self.time, self.ledger = self.gateway.time, self.gateway.ledger
        self.services, self.router = self.gateway.services, self.gateway.router

    def join(self, dialect: str, *, publishes: bool = False, ingress: Ingress = Ingress()) -> MemoryTransport:  # noqa: B008  # frozen
        """Connect a client by this ingress. A pando client either makes calls or is the publication for all
        subscribers.
        """
        name, calls = f"{dialect}-{len(self.gateway.clients)}", dialect == "pando" and not publishes
        client = self.gateway.join(name, dialect=dialect, ingress=ingress, calls=calls)
        client.judged = False  # an oracle would miss what is said by its transport
        return client.transport

    async def lists(self, *rows: dict[str, object]) -> MemoryTransport:
        """Connect a smooth client, and let the primary, which connects for it, list these sessions."""
        client = self.join("smooth")
        await send(client, ask("list_conversations", "r0"))
        await self.begins(*rows)
        return client


def _method(call: dict[str, Any]) -> str:
    return str(call["params"]["method"] if call["method"] == "db.write" else call["method"])


def frames(transport: MemoryTransport) -> list[dict[str, Any]]:
    """Return the messages that a client was sent; publications lose their topics."""
    return [json.loads(frame.rpartition(b"\0")[2]) for frame in transport.got]


async def send(client: MemoryTransport, frame: dict[str, Any]) -> None:
    """Send this frame as a client, and let the gateway act on it."""
    await client.says(json.dumps(frame).encode())


@asynccontextmanager
async def in_memory_pando_gateway(**options: Any) -> AsyncIterator[InMemoryPandoGateway]:
    """Run an in-memory gateway before a pando; all its tasks have ended when the block is left."""
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        made = InMemoryPandoGateway(group, **options)
        yield made
        await made.gateway.end()
