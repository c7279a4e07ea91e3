"""Connections and sessions that have ended are freed at once: no object of theirs waits for the garbage collector.

A collection of all objects stops the gateway for as long as it takes. So it is rare (dragoman.gateway.app.COLLECT), and
the objects of the gateway must not refer to each other in cycles once they are over.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from dragoman.gateway.app import COLLECT
from dragoman.gateway.config.model import Limits
from tests.chaos.clients import connected
from tests.chaos.kills import limits_table, route_table
from tests.chaos.processes import Program, running
from tests.pairs.codewhale_child import child
from tests.pairs.table import DIALECTS, LISTEN

LIMITS = Limits(session_ttl=3.0)  # seconds: on a busy machine, the two calls of a pando client may be far apart
OVER = 4.2  # seconds in which sessions are forgotten and children end; objects of those that remain are not counted
BAD_LINES = b'{"no":"message"}\n{"no":"json'


@pytest.mark.parametrize("is_recorded", [False, True])
async def test_connections_that_ended_leave_nothing_to_the_garbage_collector(tmp_path: Path, is_recorded: bool) -> None:
    async with AsyncExitStack() as stack:
        backends = [child("test_cycles", tmp_path), *await start_backends(stack, tmp_path)]
        routes = [route(number, backend, tmp_path) for number, backend in enumerate(backends)]
        config = tmp_path / "gateway.toml"
        recording = [f'[recording]\npath = "{tmp_path}/recordings/"'] if is_recorded else []
        config.write_text("\n".join([*routes, limits_table(LIMITS), *recording]))
        listeners = len(backends) * len(DIALECTS)
        gateway = await stack.enter_async_context(
            running("tests.gateway.collected_gateway", str(config), listeners=listeners)
        )
        for _ in range(2):  # these visits fill caches of libraries; the second ones have the history of the first
            await visit_all(gateway)
            await garbage_of(gateway)
        await visit_all(gateway)
        garbage = await garbage_of(gateway)
        assert [kind for kind in garbage if not kind.startswith("builtins.")] == []
        assert sum(garbage.values()) < listeners, "not one object of each connection"


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="the collector of Python 3.14 works in steps")
def test_the_collector_examines_few_objects_at_a_time_and_half_of_them_twice() -> None:
    examined: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            examined.append(sum(len(gc.get_objects(generation=young)) for young in range(info["generation"] + 1)))

    usual = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT)
    gc.callbacks.append(note)
    try:
        kept: list[list[int]] = [[] for _ in range(50_000)]
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*usual)
        gc.unfreeze()
    assert max(examined) < 5_500
    assert sum(examined) < 1.6 * len(kept)


async def start_backends(stack: AsyncExitStack, folder: Path) -> list[str]:
    """Start a demo backend of each dialect, and return their endpoints."""
    starting = []
    for dialect in DIALECTS:
        (place := folder / f"backend-{dialect}").mkdir()
        demo = running("dragoman", "demo-backend", LISTEN[dialect].format(folder=place), "--log-level", "warning")
        starting.append(stack.enter_async_context(demo))
    return [backend.endpoints[0] for backend in await asyncio.gather(*starting)]


def route(number: int, backend: str, folder: Path) -> str:
    """Return a route to a backend, with a listener of each dialect."""
    listen = []
    for dialect in DIALECTS:
        (place := folder / f"listen-{number}-{dialect}").mkdir()
        listen.append(LISTEN[dialect].format(folder=place))
    return route_table(f"route-{number}", listen, backend)


async def visit_all(gateway: Program) -> None:
    """Be a client of each listener, and on each Unix socket also one that writes bad messages."""
    async with asyncio.TaskGroup() as group:
        for endpoint in gateway.endpoints:
            dialect, _, address = endpoint.partition("+")
            group.create_task(visit(dialect, address))
            if address.startswith("unix:"):
                group.create_task(disturb(address))


async def visit(dialect: str, address: str) -> None:
    """Run a turn as a client, and leave."""
    async with connected(dialect, address) as client:
        await client.open()
        turn = await client.ask("count 5")
        async with asyncio.timeout(20):
            await turn.over.wait()


async def disturb(address: str) -> None:
    """Write bad messages as a client, and close the connection in the middle of one."""
    _, writer = await asyncio.open_unix_connection(address.removeprefix("unix:"))
    writer.write(BAD_LINES)
    await writer.drain()
    writer.transport.abort()


async def garbage_of(gateway: Program) -> dict[str, int]:
    """Return the objects that wait for the garbage collector: how many there are of each type."""
    await asyncio.sleep(OVER)
    gateway.tell("count")
    garbage: dict[str, int] = json.loads(await gateway.next_line())
    return garbage
