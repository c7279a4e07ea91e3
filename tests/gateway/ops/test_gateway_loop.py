"""Coroutines that the thread of the ops port runs in the loop of the gateway."""

from __future__ import annotations

import asyncio
import threading

import pytest

from dragoman.gateway.ops.gateway_loop import SLICE, GatewayLoop, take_slices


async def ident() -> int:
    return threading.get_ident()


async def test_a_coroutine_runs_in_the_thread_of_the_gateway() -> None:
    loop = GatewayLoop()
    asked = await asyncio.to_thread(lambda: asyncio.run(loop.ask(ident)))
    assert asked == threading.get_ident() == loop.thread


async def made() -> GatewayLoop:
    return GatewayLoop()


def test_asking_a_closed_event_loop_raises_a_timeout_error() -> None:
    loop = asyncio.run(made())
    with pytest.raises(TimeoutError):
        asyncio.run(loop.ask(ident))


async def test_requests_that_come_together_read_one_slice_in_a_turn_of_the_loop() -> None:
    loop, read = GatewayLoop(), 0

    async def read_table() -> None:
        nonlocal read
        async for some in take_slices(range(3 * SLICE)):
            read += len(some)

    async def ask_together() -> None:
        await asyncio.gather(*(loop.ask(read_table) for _ in range(8)))

    before = most = 0
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(asyncio.to_thread(lambda: asyncio.run(ask_together())), name="asking")
        while not asking.done():
            most, before = max(most, read - before), read
            await asyncio.sleep(0)
    assert (read, most) == (24 * SLICE, SLICE)


async def test_a_request_at_once_does_not_wait_for_one_that_takes_long() -> None:
    loop, answered = GatewayLoop(), asyncio.Event()

    async def ask_both() -> int:
        async with asyncio.TaskGroup() as group:
            group.create_task(loop.ask(answered.wait), name="long")
            found = await loop.ask(ident, at_once=True)
            await loop.ask(answer, at_once=True)
        return found

    async def answer() -> None:
        answered.set()

    assert await asyncio.to_thread(lambda: asyncio.run(ask_both())) == loop.thread
