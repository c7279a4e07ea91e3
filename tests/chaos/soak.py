"""Many clients of all dialects that connect and disconnect for a long time, and the slopes of the gateway's memory."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from contextlib import AsyncExitStack
from itertools import cycle
from pathlib import Path
from random import Random
from statistics import fmean

from msgspec import Struct

from dragoman.gateway.config.model import Limits
from tests.chaos.clients import ChaosClient, ObservedTurn, connected
from tests.chaos.kills import limits_table, route_table
from tests.chaos.pair import NO_TURN, TURN_DEADLINE, first_of
from tests.chaos.processes import running
from tests.pairs.table import DIALECTS, LISTEN

CLIENTS = 200
# Sessions that live all the time, such as that of a pod, must reach the limits of their history within the warm-up.
# Else the slope would show how their histories grow.
LIMITS = Limits(session_ttl=5.0, log_max=500, log_bytes=64 * 1024, transcript_max=32 * 1024)
LATE = 60.0  # seconds after TURN_DEADLINE until a turn counts as lost
THINK = 4.0  # seconds between two turns of a client, on average
TURNS = 3  # of a client before it connects again, on average
EVERY = 2.0  # seconds between two samples
WARM = 120.0  # seconds of samples that are left out, at most half of the run: histories reach their bounds
QUANTITIES = {"memory": 1 << 20, "descriptors": 1, "tasks": 1, "timers": 1}
"""Quantity -> its unit: MiB, or one."""


class Slope(Struct, frozen=True, kw_only=True):
    """A straight line through samples: units a minute, with its standard error, and the first and last sample."""

    per_minute: float
    error: float
    first: float
    last: float


class SoakResult(Struct, kw_only=True):
    """The slopes of a run, and the counts of its clients."""

    seconds: float
    slopes: dict[str, Slope]
    turns: Counter[str]


def slope(samples: list[tuple[float, float]]) -> Slope:
    """Fit a line to (seconds, value) by least squares; the error is that of the slope."""
    minutes, values = [at / 60 for at, _ in samples], [value for _, value in samples]
    middle, mean = fmean(minutes), fmean(values)
    points = [(at - middle, value - mean) for at, value in zip(minutes, values, strict=True)]
    spread = sum(at * at for at, _ in points)
    gradient = sum(at * value for at, value in points) / spread
    rest = sum((value - gradient * at) ** 2 for at, value in points)
    error = (rest / (len(samples) - 2) / spread) ** 0.5
    return Slope(per_minute=gradient, error=error, first=values[0], last=values[-1])


async def soak(folder: Path, seconds: float, seed: int, clients: int = CLIENTS) -> SoakResult:
    """Let clients connect and disconnect, and sample the gateway."""
    turns: Counter[str] = Counter()
    samples: list[tuple[float, dict[str, float]]] = []
    async with AsyncExitStack() as stack:
        upstreams = {}
        for dialect in DIALECTS:
            place = folder / f"backend-{dialect}"
            place.mkdir()
            backend = await stack.enter_async_context(
                running("dragoman", "demo-backend", LISTEN[dialect].format(folder=place), "--log-level", "warning")
            )
            upstreams[dialect] = backend.endpoints[0]
        config = folder / "gateway.toml"
        config.write_text(_config(folder, upstreams))
        gateway = await stack.enter_async_context(
            running("tests.chaos.gateway_process", str(config), listeners=len(DIALECTS) ** 2)
        )
        addresses = [endpoint.partition("+") for endpoint in gateway.endpoints]
        async with asyncio.TaskGroup() as group:
            visitors = [
                group.create_task(_visit(dialect, address, Random(f"{seed} {n}"), turns), name=f"visitor {n}")
                for n, (dialect, _, address) in zip(range(clients), cycle(addresses), strict=False)
            ]
            begun = time.monotonic()
            while (at := time.monotonic() - begun) < seconds:
                gateway.tell("sample")
                samples.append((at, json.loads(await gateway.next_line())))
                await asyncio.sleep(EVERY)
            for visitor in visitors:
                visitor.cancel()
    late = [(at, sample) for at, sample in samples if at >= min(WARM, seconds / 2)]
    slopes = {q: slope([(at, sample[q] / unit) for at, sample in late]) for q, unit in QUANTITIES.items()}
    return SoakResult(seconds=seconds, slopes=slopes, turns=turns)


async def _visit(dialect: str, address: str, dice: Random, turns: Counter[str]) -> None:
    """Act as one client after another: connect, run some turns, disconnect."""
    await asyncio.sleep(dice.random() * THINK)
    task = asyncio.current_task()
    while task is not None and not task.cancelling():  # an error of a client's reader may replace a cancellation
        try:
            async with connected(dialect, address) as client:
                await client.open()
                for _ in range(dice.randint(1, 2 * TURNS - 1)):
                    turn = await client.ask(f"count {dice.randint(1, 200)}")
                    turns[await _outcome(turn, client)] += 1
                    turns["ended twice"] += turn.ends > 1
                    await asyncio.sleep(dice.random() * 2 * THINK)
        except* ConnectionRefusedError:
            turns["refused"] += 1
            await asyncio.sleep(THINK)  # a refusal comes without a wait: the gateway may be gone
        except* NO_TURN:
            turns["could not connect"] += 1
            await asyncio.sleep(THINK)


async def _outcome(turn: ObservedTurn, client: ChaosClient) -> str:
    """Wait for the end of a turn. One that comes late on a busy machine is not lost."""
    for ended, deadline in (("ended", TURN_DEADLINE), ("ended late", LATE)):
        await first_of(turn.over.wait(), client.gone.wait(), deadline=deadline)
        if turn.over.is_set():
            return ended
        if client.gone.is_set():
            return "disconnected"
    return "lost"


def _config(folder: Path, upstreams: dict[str, str]) -> str:
    blocks = []
    for name, upstream in upstreams.items():
        places = {client: folder / "listen" / name / client for client in DIALECTS}
        for place in places.values():
            place.mkdir(parents=True)
        listen = [LISTEN[client].format(folder=place) for client, place in places.items()]
        blocks.append(route_table(name, listen, upstream))
    return "\n".join([*blocks, limits_table(LIMITS)])
