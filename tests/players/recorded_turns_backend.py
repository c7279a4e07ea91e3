"""A backend of any dialect, in memory, that sends the recorded content of each turn.

It is the demo backend behind a second route. Frames of the gateway under test go to a client link of that route, and
its frames go back. A turn waits at the places where the recorded client sent something during the turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from dragoman.gateway.demo.backend import DemoBackend
from dragoman.gateway.demo.script import Line, Scripts
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.session.ports import BackendEvents
from dragoman.mappings.canonical.events import (
    ModelTurnStarted,
    ReasoningDelta,
    ReasoningDone,
    ReasoningStarted,
    TextDelta,
    TextDone,
    ToolCallArguments,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
)
from dragoman.mappings.canonical.values import End
from tests.gateway.in_memory import InMemoryPeer
from tests.idle import settle
from tests.players.capture_readers import Turn
from tests.players.in_memory import AnyBackendGateway

WAITS = 1.0  # a delay that ends when the test calls `release`
PIECE = 5  # characters of a piece of text
ONE_SESSION = ("pod",)
END: dict[str, End] = {"completed": "completed", "failed": "failed", "cancelled": "cancelled", "": "completed"}


def script(turn: Turn, *, acts: bool) -> list[Line]:
    """Return the script of the demo backend for this turn; with `acts` it waits before the last word."""
    told: list[Any] = [ModelTurnStarted()] if not turn.empty else []
    if turn.thought:
        told += [ReasoningStarted(), ReasoningDelta(text=turn.thought), ReasoningDone(text=turn.thought)]
    results = list(turn.results)
    for number, (name, arguments) in enumerate(turn.calls):
        call = f"call-{number}"
        told.append(ToolCallStarted(call=call, name=name))
        told.append(ToolCallArguments(call=call, name=name, json=arguments, done=True))
        found = next((result for result in results if result[0] == name), None)
        if found is not None:
            results.remove(found)
            told.append(ToolCallFinished(call=call, name=name, summary="done", output=found[1]))
    told += [TextDelta(text=turn.text[at : at + PIECE]) for at in range(0, len(turn.text), PIECE)]
    ends = [TextDone(text=turn.text)] if turn.text and turn.end == "completed" else []
    last = [Line(event=event) for event in (*ends, TurnEnded(end=END[turn.end]))]
    if acts:
        last[0] = Line(event=last[0].event, delay=WAITS)
    return [*(Line(event=event) for event in told), *last]


class PausableDemoBackend(DemoBackend):
    """A demo backend whose delays end when `release` is called."""

    waits = False

    def release(self) -> None:
        """Continue the turn that waits, if any."""
        self.waits = False
        self._wake.set()

    async def _pause(self, delay: float) -> None:
        self.waits = bool(delay)
        while self.waits and self._stop is None and not self._stopped:
            self._wake.clear()
            await self._wake.wait()


class RecordedTurnsGateway(AnyBackendGateway):
    """A route whose backend is the demo backend."""

    def __init__(self, group: asyncio.TaskGroup, dialect: str, turns: list[list[Line]]) -> None:
        self.turns = turns
        self.actors: list[PausableDemoBackend] = []
        self._rotates = dialect == "pod"  # as the first run of each pod does
        nowhere = Endpoint(dialect="pod" if dialect in ONE_SESSION else "smooth", transport="demo", address="play")
        super().__init__(group, dialect, upstream=nowhere, keeps=False)

    def _upstream(self, session: BackendEvents, endpoint: Endpoint) -> Any:
        actor = PausableDemoBackend(session, self.services.start_task, Scripts(self.turns), rotates=self._rotates)
        self.actors.append(actor)
        return actor


class RecordedTurnsBackend:
    """The backend of `stage`. Its method `rest` passes on what both sides sent."""

    def __init__(self, stage: AnyBackendGateway, turns: list[list[Line]]) -> None:
        self._stage = stage
        self._acted = RecordedTurnsGateway(stage.group, stage.backend, turns)
        self._peers: list[InMemoryPeer] = []
        self._passed: dict[int, int] = {}

    def release(self) -> None:
        """Continue the turn that waits."""
        for actor in self._acted.actors:
            actor.release()

    async def rest(self) -> None:
        """Run until neither side sends anything."""
        await settle()
        while self._hand_over():
            await settle()

    def _hand_over(self) -> bool:
        """Pass on what was sent since the last time; return False if there was nothing."""
        any_news = False
        for number, outer in enumerate(self._stage.pods):
            if number == len(self._peers):
                self._peers.append(self._connect(number))
            inner = self._peers[number]
            for frame in self._news(outer):
                any_news = True
                if self._stage.backend == "pando":
                    inner.calls(frame)
                else:
                    inner.transport.say(frame)
            for frame in self._told(number, inner):
                any_news = True
                outer.transport.say(frame)
        return any_news

    def _connect(self, number: int) -> InMemoryPeer:
        if self._stage.backend == "pando":
            return self._acted.caller(f"connection {number}")
        return self._acted.join(f"connection {number}", dialect=self._stage.backend)

    def _told(self, number: int, inner: InMemoryPeer) -> Iterator[bytes]:
        yield from self._news(inner)
        if self._stage.backend == "pando" and number == len(self._stage.pods) - 1:
            yield from self._news(self._acted.publication)

    def _news(self, peer: InMemoryPeer) -> list[bytes]:
        before = self._passed.get(id(peer), 0)
        self._passed[id(peer)] = len(peer.transport.got)
        return peer.transport.got[before:]

    async def end(self) -> None:
        """Disconnect all clients."""
        await self._acted.end()
