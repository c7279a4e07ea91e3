"""The outbox: whoever puts never waits, whoever takes gets everything in order, and what waits is counted."""

from __future__ import annotations

import asyncio

from dragoman.gateway.outbox import Outbox
from tests.idle import settle


async def test_a_take_gives_everything_that_waits_in_order() -> None:
    outbox = Outbox(100, 1000)
    outbox.put([b"one", b"two"])
    outbox.put([b"three"])
    assert outbox.size == 11
    assert await outbox.take() == [b"one", b"two", b"three"]
    assert (outbox.size, outbox.empty) == (0, True)


async def test_a_take_waits_for_the_first_frame() -> None:
    outbox = Outbox(100, 1000)
    async with asyncio.TaskGroup() as group:
        taking = group.create_task(outbox.take(), name="take")
        await settle()
        assert not taking.done()
        outbox.put([b"one"])
        outbox.put([b"two"])
    assert taking.result() == [b"one", b"two"]


async def test_putting_nothing_wakes_nobody() -> None:
    outbox = Outbox(100, 1000)
    async with asyncio.TaskGroup() as group:
        taking = group.create_task(outbox.take(), name="take")
        await settle()
        outbox.put([])
        await settle()
        assert not taking.done()
        outbox.close()
    assert taking.result() == []


async def test_a_cancelled_take_loses_nothing() -> None:
    outbox = Outbox(100, 1000)
    async with asyncio.TaskGroup() as group:
        taking = group.create_task(outbox.take(), name="take")
        await settle()
        outbox.put([b"one"])
        taking.cancel()
    assert await outbox.take() == [b"one"]


def test_it_is_full_past_the_soft_limit_and_over_past_the_hard_one() -> None:
    outbox = Outbox(3, 6)
    outbox.put([b"123"])
    assert (outbox.full, outbox.over) == (False, False)
    outbox.put([b"4"])
    assert (outbox.full, outbox.over) == (True, False)
    outbox.put([b"56"])
    assert (outbox.full, outbox.over) == (True, False)
    outbox.put([b"7"])
    assert (outbox.full, outbox.over) == (True, True)


async def test_what_was_taken_is_no_longer_counted() -> None:
    outbox = Outbox(3, 6)
    outbox.put([b"1234567"])
    await outbox.take()
    assert (outbox.full, outbox.over) == (False, False)


async def test_a_closed_outbox_gives_what_is_left_and_then_nothing() -> None:
    outbox = Outbox(100, 1000)
    outbox.put([b"last"])
    outbox.close()
    outbox.put([b"too late"])
    assert await outbox.take() == [b"last"]
    assert await outbox.take() == []


async def test_a_discarded_outbox_gives_nothing() -> None:
    outbox = Outbox(100, 1000)
    outbox.put([b"never read"])
    outbox.discard()
    assert (outbox.size, outbox.empty, outbox.closed) == (0, True, True)
    assert await outbox.take() == []


def test_an_outbox_remembers_that_it_was_full() -> None:
    outbox = Outbox(4, 1000)
    outbox.put([b"four"])
    assert not outbox.was_full
    outbox.put([b"!"])
    assert outbox.was_full
