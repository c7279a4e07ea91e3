"""The loop of the gateway: the thread of the ops port runs coroutines in it, and watches whether it runs."""

from __future__ import annotations

import asyncio
import threading

import pytest

from dragoman.gateway.ops.gateway_loop import BEAT, LOOK, SLICE, GatewayLoop, LoopHeartbeat, take_slices


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


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def look_for(heartbeat: LoopHeartbeat, clock: Clock, seconds: float) -> float:
    """Look each LOOK seconds for so long, and return the last answer."""
    late = heartbeat.look()
    for _ in range(int(seconds / LOOK)):
        clock.now += LOOK
        late = heartbeat.look()
    return late


async def test_a_loop_is_not_stuck_before_its_next_beat_is_due() -> None:
    clock = Clock()
    heartbeat = LoopHeartbeat(clock)
    heartbeat.start()
    clock.now += BEAT
    assert heartbeat.look() == 0
    assert look_for(heartbeat, clock, 3) == 3
    heartbeat.beat()
    assert heartbeat.look() == 0
    heartbeat.stop()


async def test_a_process_that_was_stopped_is_not_stuck() -> None:
    clock = Clock()
    heartbeat = LoopHeartbeat(clock, cpu=Clock())
    heartbeat.start()
    look_for(heartbeat, clock, LOOK)
    clock.now += 3600
    assert heartbeat.look() == 0
    assert look_for(heartbeat, clock, 3) == 3, "a loop that does not turn afterwards is stuck"
    heartbeat.stop()


async def test_a_step_that_holds_the_interpreter_is_stuck_although_nobody_could_look() -> None:
    clock = Clock()
    heartbeat = LoopHeartbeat(clock, cpu=clock)
    heartbeat.start()
    clock.now += BEAT
    heartbeat.look()
    clock.now += 10
    assert heartbeat.look() == 10
    heartbeat.stop()


async def test_the_lags_of_beats_are_counted_in_cumulative_buckets() -> None:
    clock = Clock()
    heartbeat = LoopHeartbeat(clock)
    heartbeat.start()
    for lag in (0.0, 0.003, 7.0):
        clock.now += BEAT + lag
        heartbeat.beat()
    heartbeat.stop()
    counted = dict(zip((*heartbeat.lag.bounds, "all"), heartbeat.lag.count_up_to(), strict=True))
    assert (counted[0.001], counted[0.005], counted[5.0], counted["all"]) == (1, 2, 2, 3)
    assert round(heartbeat.lag.total, 6) == 7.003
