"""Our translation, twice: bare, as G1 and G2 define it, and as the live gateway runs it.

Bare runs the pod's `Direction.receive`, one batch and the smooth projection's `render`. Live runs the translator of the
upstream link, a whole Session and the link to one smooth client. No peer of codec.py does that work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import structs

from dragoman.adapters.base import CloseReason, Sink
from dragoman.adapters.meter import Meter
from dragoman.gateway.config.model import RouteOptions
from dragoman.gateway.link import Link, LinkEvents
from dragoman.gateway.peer import Peer
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical import Batch, Command, Event, SessionState
from dragoman.mappings.dialect import Dialect, Step
from dragoman.mappings.pod import DIALECT as POD
from dragoman.mappings.smooth import DIALECT as SMOOTH
from tests.bench.material import MESSAGE, REQUEST
from tests.services import services

SESSION = "5e550000-0000-4000-8000-000000000001"
TURN = "70a70000-0000-4000-8000-000000000001"
NS_PER_MS = 1_000_000

Added = Callable[[list[Event]], Iterator[Event]]

OWN_TURN: Dialect = structs.replace(SMOOTH, projection=lambda _request, view: SMOOTH.projection(REQUEST, view))
"""smooth, rendered for the client that began the turn: its frames carry REQUEST, as those of Bare do."""


class Bare:
    """The translation without link and session. `added` yields the events that the session would add to this kind."""

    def __init__(self, added: Added | None) -> None:
        self._added = added
        self._smooth = SMOOTH.projection(REQUEST, "")

    def translate(self, frames: Sequence[bytes], now: int) -> list[bytes]:
        step: Step[Any] = Step()
        POD.events.receive(frames, step)
        written: list[bytes] = []
        for burst in step.bursts:
            events = burst.items if self._added is None else list(self._added(burst.items))
            batch = Batch(session=SESSION, epoch=1, first_seq=0, events=events, turn=TURN, at=now * NS_PER_MS)
            written += self._smooth.render(batch).frames
        return written


class Live:
    """The translation by the upstream link's translator, a Session and the link to one client."""

    def __init__(self) -> None:
        self._now = 0
        shared = structs.replace(services(new_id=lambda: MESSAGE), clock=lambda: self._now)
        self._pod = POD.client(shared.clock, shared.new_id, shared.monotonic)
        self._client = Reader()
        self._session = Session(
            SessionState(id=SESSION), RouteOptions(), POD, shared, connect=lambda _session: Silent()
        )
        translator = OWN_TURN.server(shared.clock, shared.new_id, "")
        peer, events = Peer(id="client", dialect=OWN_TURN), LinkEvents[Command](sink=lambda _link, _bursts: None)
        link = Link(peer, self._client, translator, shared, events)
        self._session.presence.attach(link)
        link.outbox.idle = True  # as while its writer waits: frames are written in the call that rendered them

    def translate(self, frames: Sequence[bytes], now: int) -> list[bytes]:
        self._now = now * NS_PER_MS
        written: list[bytes] = []
        self._client.got = written
        self._session.receive(self._pod.receive(frames).bursts)
        return written


class Silent:
    """A backend that takes every command and is not driven by the session: Live passes on what it says."""

    def start(self) -> None: ...
    def send(self, commands: Sequence[Command]) -> None: ...
    def suspend(self) -> bool:
        return False

    def stop(self) -> None: ...


class Reader:
    """A transport whose peer reads everything at once."""

    peer = "bench"

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.meter = Meter()

    def try_send(self, frames: Sequence[bytes]) -> bool:
        self.got += frames
        return True

    async def send(self, frames: Sequence[bytes]) -> None:
        self.got += frames

    async def run(self, sink: Sink) -> None: ...
    def resume(self) -> None: ...
    def discard(self) -> None: ...
    def peer_can_read(self) -> bool:
        return True

    async def close(self, reason: CloseReason = CloseReason.DONE, text: str = "") -> None: ...
