"""The outbox: putting never waits, taking returns everything in order, and waiting frames are counted."""

from __future__ import annotations

import asyncio

from dragoman.adapters.meter import Meter
from dragoman.gateway.outbox import TAKE, Outbox
from tests.idle import settle


async def test_take_returns_all_pending_frames_in_order() -> None:
    outbox = Outbox(100, 1000)
    outbox.put([b"one", b"two"])
    outbox.put([b"three"])
    assert outbox.size == 11
    assert await outbox.take() == [b"one", b"two", b"three"]
    assert (outbox.size, outbox.empty) == (0, True)


async def test_take_waits_for_the_first_frame() -> None:
    outbox = Outbox(100, 1000)
    async with asyncio.TaskGroup() as group:
        taking = group.create_task(outbox.take(), name="take")
        await settle()
        assert not taking.done()
        outbox.put([b"one"])
        outbox.put([b"two"])
    assert taking.result() == [b"one", b"two"]


async def test_putting_no_frames_does_not_wake_the_writer() -> None:
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


def test_an_outbox_is_full_above_the_soft_limit_and_over_above_the_hard_limit() -> None:
    outbox = Outbox(3, 6)
    outbox.put([b"123"])
    assert (outbox.full, outbox.over) == (False, False)
    outbox.put([b"4"])
    assert (outbox.full, outbox.over) == (True, False)
    outbox.put([b"56"])
    assert (outbox.full, outbox.over) == (True, False)
    outbox.put([b"7"])
    assert (outbox.full, outbox.over) == (True, True)


async def test_taken_frames_are_no_longer_counted() -> None:
    outbox = Outbox(3, 6)
    outbox.put([b"1234567"])
    await outbox.take()
    assert (outbox.full, outbox.over) == (False, False)


async def test_a_closed_outbox_returns_the_remaining_frames_and_then_nothing() -> None:
    outbox = Outbox(100, 1000)
    outbox.put([b"last"])
    outbox.close()
    outbox.put([b"too late"])
    assert await outbox.take() == [b"last"]
    assert await outbox.take() == []


async def test_a_discarded_outbox_returns_nothing() -> None:
    outbox = Outbox(100, 1000)
    outbox.put([b"never read"])
    outbox.discard()
    assert (outbox.size, outbox.empty, outbox.closed) == (0, True, True)
    assert await outbox.take() == []


async def test_a_long_queue_is_taken_in_pieces_and_nothing_is_left_out() -> None:
    outbox = Outbox(TAKE, 100 * TAKE)
    frames = [bytes([number]) * (TAKE // 3) for number in range(10)]
    outbox.put(frames)
    pieces: list[list[bytes]] = []
    while not outbox.empty:
        pieces.append(await outbox.take())
    assert [frame for piece in pieces for frame in piece] == frames
    assert max(map(len, pieces)) == 4, "up to the frame that completes the piece"
    assert (outbox.size, outbox.full) == (0, False)


async def test_a_frame_larger_than_a_piece_is_taken_whole() -> None:
    outbox = Outbox(1, 100 * TAKE)
    outbox.put([b"x" * 2 * TAKE, b"y"])
    assert await outbox.take() == [b"x" * 2 * TAKE]
    assert await outbox.take() == [b"y"]


async def test_the_meter_counts_what_waits() -> None:
    meter = Meter()
    outbox = Outbox(100, 1000, meter)
    outbox.put([b"12", b"345"])
    assert meter.size == 5
    await outbox.take()
    assert meter.size == 0
    outbox.put([b"x" * TAKE, b"12"])
    await outbox.take()
    assert meter.size == 2
    outbox.discard()
    assert meter.size == 0
