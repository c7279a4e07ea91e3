"""A router whose backends open a session at once, with clients that are called directly, to count their cost."""

from __future__ import annotations

import asyncio
import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from dragoman.gateway import registry
from dragoman.gateway.config.model import Limits, Route
from dragoman.gateway.endpoint import Endpoint, parse
from dragoman.gateway.link import Link, LinkEvents
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.overload.fair_queue import FairQueue
from dragoman.gateway.peer import Peer
from dragoman.gateway.routing.router import Router
from dragoman.gateway.session.ports import BackendEvents
from dragoman.gateway.session.session import Session
from dragoman.gateway.upstreams import kind_of
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import GetSession, OpenSession, ResumeSession
from dragoman.mappings.canonical.events import SessionOpened
from dragoman.mappings.dialect import Burst
from tests.gateway.in_memory import ManualClock
from tests.memory_transport import MemoryTransport
from tests.services import services as make_services

TTL = Limits().session_ttl


def soon(step: Callable[[], None]) -> None:
    """Do a step of the fair queue in the next iteration of the event loop, or now if none runs."""
    try:
        asyncio.get_running_loop().call_soon(step)
    except RuntimeError:
        step()


class OpenedConversation:
    """A backend in this process: each session opens its own conversation, as with a smooth server."""

    def __init__(self, session: BackendEvents, number: int) -> None:
        self._session = weakref.proxy(session)
        self._number = number

    def start(self) -> None:
        """Do nothing: this backend starts with its first command."""

    def send(self, commands: Sequence[Command]) -> None:
        for command in commands:
            if isinstance(command, OpenSession | ResumeSession | GetSession):
                opened = SessionOpened(request=command.request, session=str(UUID(int=self._number)), ext={})
                self._session.receive([Burst(items=[opened])])

    def suspend(self) -> bool:
        return False

    def stop(self) -> None:
        """Do nothing: this backend has no connection."""


class CountedRoute:
    """A router over `OpenedConversation` and its sessions, with clients that are called directly, without tasks."""

    def __init__(self, ttl: float = TTL, limits: dict[str, Any] | None = None, **options: Any) -> None:
        self.time = ManualClock(start=0)
        self.ledger = Ledger()
        self.ids = itertools.count(1)
        self.numbers = itertools.count(1 << 64)
        bounds = Limits(session_ttl=ttl, **(limits or {}))
        queue = FairQueue(soon)
        self.services = make_services(self.time, limits=bounds, ledger=self.ledger, new_id=self.new_id, queue=queue)
        dialect = registry.dialect("smooth")
        route = Route(name="test", listen=(), upstream=parse("smooth+ws://127.0.0.1:2/ws"), **options)
        kind = partial(kind_of, dialect, make_backend=self.open, in_process=True)
        self.router = Router(route, self.services, dialect, kind)
        self.sessions = self.router._all

    def open(self, session: BackendEvents, _endpoint: Endpoint) -> OpenedConversation:
        return OpenedConversation(session, next(self.numbers))

    def new_id(self) -> str:
        return str(UUID(int=next(self.ids)))

    def connect(self, name: str) -> Link:
        dialect = registry.dialect("smooth")
        link = Link(
            Peer(id=name, dialect=dialect),
            MemoryTransport(),
            dialect.server(self.time.clock, self.new_id, ""),
            self.services,
            LinkEvents(sink=self.router.receive, drained=self.router.drained),
        )
        self.router.connected(link)
        return link

    def send_open(self, link: Link) -> None:
        self.router.receive(link, [Burst(items=[OpenSession(request="r")])])

    def open_session(self, link: Link) -> Session:
        self.send_open(link)
        (session,) = self.sessions.index.live_sessions(link.sessions)
        return session

    def open_and_leave(self, count: int) -> None:
        for number in range(count):
            link = self.connect(f"c{number}")
            self.open_session(link)
            self.router.gone(link)


@contextmanager
def touched(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[int]]:
    """Collect the sessions that are read while the block runs."""
    seen: set[int] = set()
    read = object.__getattribute__

    def look(session: Session, name: str) -> Any:
        seen.add(id(session))
        return read(session, name)

    with monkeypatch.context() as patched:
        patched.setattr(Session, "__getattribute__", look, raising=False)
        yield seen
