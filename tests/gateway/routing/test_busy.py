"""The busy sessions of a route: a gateway that stops waits for those that were busy when it began to stop."""

from __future__ import annotations

import asyncio

from dragoman.gateway.routing.busy import BusySessions
from tests.gateway.in_memory import in_memory_gateway
from tests.idle import settle


async def test_shutdown_waits_for_no_session_if_none_is_busy() -> None:
    await BusySessions().finish()


async def test_a_session_that_is_busy_again_is_not_waited_for_a_second_time() -> None:
    async with in_memory_gateway() as made, asyncio.TaskGroup() as group:
        busy = BusySessions()
        busy.note(made.session, True)
        waiting = group.create_task(busy.finish(), name="finish")
        await settle()
        busy.note(made.session, False)
        busy.note(made.session, True)
        await settle()
        assert waiting.done()


async def test_each_finish_waits_for_the_sessions_that_are_busy_when_it_begins() -> None:
    async with in_memory_gateway() as made, asyncio.TaskGroup() as group:
        busy = BusySessions()
        for number in range(2):  # a route that retires waits, and then a gateway that stops
            busy.note(made.session, True)
            waiting = group.create_task(busy.finish(), name=f"finish {number}")
            await settle()
            assert not waiting.done()
            busy.note(made.session, False)
            await settle()
            assert waiting.done()
