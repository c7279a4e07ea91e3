"""A stage for tests of delivery: the delivery of one session, its log, and links in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from dragoman.adapters.base import CloseReason
from dragoman.gateway import registry
from dragoman.gateway.config.model import Limits, RouteOptions
from dragoman.gateway.link import Link, LinkEvents
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.peer import Peer
from dragoman.gateway.recording.session_recorder import SessionRecorder
from dragoman.gateway.session.attachments import DeliveryContext
from dragoman.gateway.session.delivery import Delivery
from dragoman.gateway.session.log import Log
from dragoman.gateway.session.weight import of_events
from dragoman.mappings.canonical import Event, SessionState
from dragoman.mappings.canonical.events import (
    MessageAppended,
    StatusChanged,
    TextDelta,
    TextDone,
    TurnAccepted,
    TurnEnded,
    TurnResult,
)
from dragoman.mappings.canonical.values import End, Message, Origin
from tests.idle import settle
from tests.memory_transport import MemoryTransport
from tests.services import services

SESSION = "5f0c4b1e-0000-4000-8000-000000000001"
TURN = "5f0c4b1e-0000-4000-8000-00000000000a"


class DeliveryStage:
    """The delivery of a session, with links in memory; tests play turns in normal form by hand."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        *,
        soft: int,
        log_bytes: int,
        coalesce: bool,
        source: str,
        recorder: SessionRecorder | None,
    ) -> None:
        self.group = group
        self.state = SessionState(id=SESSION)
        self.ledger = Ledger()
        limits = Limits(outbox_soft=soft, outbox_hard=1 << 24, log_bytes=log_bytes, catch_up=64)
        self.services = services(limits=limits, ledger=self.ledger)
        self.log = Log(self.state, limits)
        context = DeliveryContext(
            state=self.state,
            log=self.log,
            services=self.services,
            route=RouteOptions(overflow="coalesce" if coalesce else "disconnect"),
            upstream=registry.dialect(source),
            recorder=recorder,
        )
        self.delivery = Delivery(context)
        self.origin = Origin()
        self.links: list[Link] = []
        self.seen: list[str] = []
        """The slices that were rendered, and the links that were heard."""

    def join(self, name: str, *, reads: bool = True, dialect: str = "smooth") -> tuple[Link, MemoryTransport]:
        """Attach a client. One that does not read gets nothing until its transport's `reading` is set."""
        transport, spoken = MemoryTransport(), registry.dialect(dialect)
        link = Link(
            Peer(id=name, dialect=spoken),
            transport,
            spoken.server(lambda: 0, lambda: "id"),
            self.services,
            LinkEvents(sink=lambda link, _bursts: self.seen.append(link.id), drained=self._drained),
        )
        if not reads:
            transport.reading.clear()
        self.links.append(link)
        self.group.create_task(link.run(), name=name)
        self.delivery.attach(link, "")
        return link, transport

    async def fill_outbox(self, link: Link) -> None:
        """Play pieces of text until the outbox of a link that does not read is full."""
        while not link.outbox.full:
            self.play(TextDelta(text="x"))
            await settle()

    def _drained(self, link: Link) -> None:
        link.add_work(self._slices(link))

    def _slices(self, link: Link) -> Iterator[None]:
        for _ in self.delivery.catch_up(link):
            self.seen.append(f"slice of {link.id}")
            yield

    def play(self, *events: Event, turn: str = TURN) -> None:
        batch = self.log.append(list(events), turn, self.origin, 10**9, of_events(events))
        plain = all(isinstance(event, TextDelta) for event in events)
        finished = self.delivery.deliver(batch, plain=plain)
        self.delivery.notify_finished([(attachment, batch) for attachment in finished])

    def begin(self, link: str = "", request: str = "", turn: str = TURN) -> None:
        self.origin = Origin(link=link, request=request)
        message = Message(role="user", text="hi", id=SESSION)
        self.play(
            TurnAccepted(request=request),
            MessageAppended(message=message),
            StatusChanged(status="running"),
            turn=turn,
        )

    def end(self, text: str, turn: str = TURN, end: End = "completed") -> None:
        self.play(
            TextDone(text=text),
            TurnResult(end=end),
            StatusChanged(status="idle"),
            TurnEnded(end=end, text=text, message=SESSION),
            turn=turn,
        )


@asynccontextmanager
async def stage(
    *,
    soft: int = 1 << 20,
    log_bytes: int = 1 << 25,
    coalesce: bool = True,
    source: str = "pod",
    recorder: SessionRecorder | None = None,
) -> AsyncIterator[DeliveryStage]:
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        made = DeliveryStage(group, soft=soft, log_bytes=log_bytes, coalesce=coalesce, source=source, recorder=recorder)
        yield made
        for link in made.links:
            link.end(CloseReason.DONE)


def shown(transport: MemoryTransport) -> list[dict[str, Any]]:
    return [json.loads(frame) for frame in transport.got]


def text(transport: MemoryTransport, request: str) -> str:
    return "".join(f["token"] for f in shown(transport) if f["type"] == "stream_token" and f["requestId"] == request)
