"""A flag wakes whoever waits for it, and forgets whoever was cancelled."""

from __future__ import annotations

import asyncio

from dragoman.adapters.flag import Flag
from tests.idle import settle


async def test_a_flag_wakes_all_tasks_that_wait() -> None:
    flag, woken = Flag(), []

    async def wait(name: str) -> None:
        await flag.wait()
        woken.append(name)

    async with asyncio.TaskGroup() as group:
        group.create_task(wait("one"), name="one")
        group.create_task(wait("two"), name="two")
        await settle()
        assert woken == []
        flag.set()
    assert woken == ["one", "two"]


async def test_a_set_flag_lets_a_task_pass_until_it_is_cleared() -> None:
    flag = Flag()
    flag.set()
    await flag.wait()
    assert flag.is_set
    flag.clear()
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(flag.wait(), name="wait")
        await settle()
        assert not waiting.done()
        flag.set()


async def test_a_cancelled_wait_leaves_the_others() -> None:
    flag = Flag()
    async with asyncio.TaskGroup() as group:
        gone = group.create_task(flag.wait(), name="gone")
        stays = group.create_task(flag.wait(), name="stays")
        await settle()
        gone.cancel()
        await settle()
        assert (gone.cancelled(), stays.done()) == (True, False)
        flag.set()
    assert stays.done()
