"""A client, a gateway and a backend, with a fault proxy on both sides of the gateway.

    client -> proxy -> gateway (in this process) -> proxy -> demo backend

A round arms one fault and lets a client run a turn. Then another client runs a turn without any fault. The tally counts
what the clients saw, and the turns of the gateway's own sessions: each turn that began there must have ended once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from msgspec import Struct, field

from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config, Limits, Route
from dragoman.gateway.demo.backend import demo_backend
from dragoman.gateway.demo.script import Line
from dragoman.gateway.endpoint import parse
from dragoman.gateway.session.runs import Run
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical.events import (
    ModelTurnStarted,
    TextDelta,
    ToolCallArguments,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
)
from tests.awaited import comes_true
from tests.chaos.clients import ChaosClient, connected
from tests.chaos.faults import Fault, FaultKind, Round
from tests.chaos.proxy import FaultProxy
from tests.dialects import parts
from tests.pairs.gateway import serving
from tests.pairs.table import LISTEN

LIMITS = Limits(
    max_message=8 << 20,
    drain_deadline=0.5,
    connect_deadline=1.0,
    accept_deadline=3.0,
    open_deadline=2.0,
    cancel_deadline=1.0,
    reconnect_grace=0.2,
    backoff_first=0.02,
    backoff_max=0.1,
)
TURN_DEADLINE = 12.0  # seconds after which a turn without an end is lost: four times the longest deadline above
GARBLED_DEADLINE = 2.0  # seconds: a request that the proxy has broken gets no answer
RECOVERY_DEADLINE = 15.0  # seconds in which the pair must work again, once nothing disturbs it

NO_TURN = (OSError, aiohttp.ClientError, TimeoutError)
"""Errors that a client raises if it cannot connect or open a session."""

PIECES = 12  # of the text of a turn
STORY = [
    [
        Line(event=ModelTurnStarted()),
        *(Line(event=TextDelta(text=f"piece {n} of the answer, "), delay=0.002) for n in range(PIECES)),
        Line(event=ToolCallStarted(call="c1", name="look")),
        Line(event=ToolCallArguments(call="c1", name="look", json="{}", done=True)),
        Line(event=ToolCallFinished(call="c1", name="look", output="found", summary="found"), delay=0.002),
        Line(event=TextDelta(text="and that is all."), delay=0.002),
        Line(event=TurnEnded(end="completed")),
    ]
]
"""The answer of the backend to every input: about 30 ms of text and one tool call."""


class Outcome(Struct, frozen=True, kw_only=True):
    """The result of one round. `ended` counts the ends that the client saw, including refusals."""

    struck: bool
    ended: bool
    disconnected: bool
    lost: bool
    ended_twice: bool
    recovered: bool


class EndTally(Struct):
    """The counts of turns by how they ended. `details` describes the turns that were lost or ended twice."""

    ended: Counter[str] = field(default_factory=Counter)
    disconnected: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    ended_twice: Counter[str] = field(default_factory=Counter)
    not_recovered: Counter[str] = field(default_factory=Counter)
    details: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.lost.total() or self.ended_twice.total() or self.not_recovered.total())


class Tally(EndTally):
    """The counts of many rounds, by kind of fault and side."""

    rounds: Counter[str] = field(default_factory=Counter)
    struck: Counter[str] = field(default_factory=Counter)

    def add(self, pair: str, each: Round, outcome: Outcome) -> None:
        key = each.fault.title
        self.rounds[key] += 1
        self.struck[key] += outcome.struck
        self.ended[key] += outcome.ended
        self.disconnected[key] += outcome.disconnected
        self.lost[key] += outcome.lost
        self.ended_twice[key] += outcome.ended_twice
        self.not_recovered[key] += not outcome.recovered
        if outcome.lost or outcome.ended_twice or not outcome.recovered:
            self.details.append(f"{pair}: {each}: {outcome}")


class GatewayTurns:
    """The turns of a gateway's sessions, with the number of ends that the sessions delivered for each."""

    def __init__(self) -> None:
        self.ends: Counter[str] = Counter()
        self._news = asyncio.Event()

    def note(self, _session: Session, run: Run) -> None:
        """Process the events of a session."""
        if run.turn:
            self.ends[run.turn] += run.ended
            self._news.set()

    async def all_ended(self) -> bool:
        """Wait until every turn has ended; False if one has no end."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TURN_DEADLINE):
                while not all(self.ends.values()):
                    self._news.clear()
                    await self._news.wait()
        return all(self.ends.values())

    def ended_twice(self) -> int:
        return sum(1 for ends in self.ends.values() if ends > 1)


class FaultyPair:
    """A running pair. `near` is the proxy of its clients, `far` that of its backend."""

    def __init__(self, client: str, near: FaultProxy, far: FaultProxy, turns: GatewayTurns, address: str) -> None:
        self.client = client
        self.near = near
        self.far = far
        self.turns = turns
        self.address = address  # of the gateway itself

    async def play(self, each: Round) -> Outcome:
        """Run a turn with this fault, and then a turn without."""
        fault = each.fault
        proxy = self.near if fault.side == "client" else self.far
        struck, twice = proxy.struck, self.turns.ended_twice()
        client = parts(self.client).chaos_client()
        answered, gone = await self._faulty_turn(client, proxy, each)
        self.near.calm()
        self.far.calm()
        broken = proxy.broke.is_set() or (self._may_garble(fault) and proxy.struck > struck)
        disconnected = gone or (fault.side == "client" and broken)
        allowed = 1 + (fault.kind is FaultKind.DUPLICATE and fault.side == "client")  # a repeated request
        return Outcome(
            struck=proxy.struck > struck,
            ended=answered,
            disconnected=disconnected and not answered,
            lost=not (answered or disconnected) or not await self.turns.all_ended(),
            ended_twice=self.turns.ended_twice() > twice or client.most_ends() > allowed,
            recovered=await self.recovers(),
        )

    def _may_garble(self, fault: Fault) -> bool:
        """Return True if a duplicated read may break ZMTP; ZeroMQ then reconnects without reporting it."""
        return self.client == "pando" and fault.side == "client" and fault.kind is FaultKind.DUPLICATE

    async def _faulty_turn(self, client: ChaosClient, proxy: FaultProxy, each: Round) -> tuple[bool, bool]:
        """Run a turn; return whether the client received its end or a refusal, and whether it was disconnected."""
        proxy.broke.clear()
        if each.before_open:
            proxy.arm(each.fault)
        broke = proxy.broke if each.fault.side == "client" else asyncio.Event()
        answered = gone = False

        async def hold() -> None:
            nonlocal answered, gone
            async with client.connect(self.near.address):
                await client.open()
                if not each.before_open:
                    proxy.arm(each.fault)
                turn = await client.ask("tell me")
                await first_of(turn.over.wait(), client.gone.wait())
                answered, gone = turn.over.is_set(), client.gone.is_set()

        try:
            deadline = GARBLED_DEADLINE if self._may_garble(each.fault) else TURN_DEADLINE
            await first_of(hold(), broke.wait(), deadline=deadline)
        except* ConnectionRefusedError:
            answered = True
        except* (ConnectionError, aiohttp.ClientError):
            gone = True
        except* NO_TURN:
            pass
        return answered, gone

    async def recovers(self) -> bool:
        """Run turns with clients of the gateway itself until one is completed."""
        # The backend may still be busy with the turn that the fault cut.
        return await comes_true(lambda: completes(self.client, self.address), RECOVERY_DEADLINE, every=0.05)


async def completes(dialect: str, address: str) -> bool:
    """Run a turn with a new client; return True if it was completed."""
    completed = False
    try:
        async with connected(dialect, address) as client:
            await client.open()
            turn = await client.ask("and now without a fault")
            await first_of(turn.over.wait(), client.gone.wait())
            completed = turn.completed
    except* NO_TURN:
        pass
    return completed


async def first_of(*works: Coroutine[Any, Any, object], deadline: float = TURN_DEADLINE) -> None:
    """Wait until one of these coroutines ends or the deadline passes, and cancel the others."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work, name="first of") for work in works]
        await asyncio.wait(tasks, timeout=deadline, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()


@asynccontextmanager
async def faulty_pair(client: str, backend: str, folder: Path) -> AsyncIterator[FaultyPair]:
    """Run a demo backend, a gateway and both proxies in this loop."""
    places = {name: folder / name for name in ("backend", "far", "gateway", "near")}
    for place in places.values():
        place.mkdir()
    app = demo_backend(parse(LISTEN[backend].format(folder=places["backend"])), STORY)
    turns = GatewayTurns()
    async with AsyncExitStack() as stack:
        (behind,) = await stack.enter_async_context(serving(app))
        far = await stack.enter_async_context(FaultProxy.in_front_of(behind.partition("+")[2], places["far"]))
        listen = parse(LISTEN[client].format(folder=places["gateway"]))
        route = Route(name="chaos", listen=(listen,), upstream=parse(f"{backend}+{far.address}"))
        gateway = App(Config(routes=(route,), limits=LIMITS), on_run=turns.note)
        (endpoint,) = await stack.enter_async_context(serving(gateway))
        address = endpoint.partition("+")[2]
        near = await stack.enter_async_context(FaultProxy.in_front_of(address, places["near"]))
        yield FaultyPair(client, near, far, turns, address)


async def play_rounds(client: str, backend: str, folder: Path, rounds: list[Round], tally: Tally) -> None:
    """Play these faults, one after the other, on one pair."""
    async with faulty_pair(client, backend, folder) as pair:
        for each in rounds:
            tally.add(f"{client} to {backend}", each, await pair.play(each))
