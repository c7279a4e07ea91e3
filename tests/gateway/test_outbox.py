"""The outbox: putting never waits, taking returns everything in order, and waiting frames are counted."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.gateway.observability.traffic import Traffic
from dragoman.gateway.outbox import TAKE, Outbox
from dragoman.gateway.overload.fair_queue import PUT, StepBudget
from tests.memory_transport import MemoryTransport


def made(soft: int, hard: int, transport: MemoryTransport | None = None) -> Outbox:
    """Return the outbox of a peer that takes nothing at once, or of this transport."""
    if transport is None:
        transport = MemoryTransport()
        transport.eager = False
    return Outbox(soft, hard, transport, StepBudget())


def served(outbox: Outbox) -> tuple[Outbox, list[int]]:
    """Return the outbox, and its size each time that a writer was started."""
    started: list[int] = []

    def start() -> Any:
        started.append(outbox.size)

    outbox.serve(start)
    return outbox, started


def test_a_writer_is_started_for_frames_that_were_put_before() -> None:
    waiting = made(100, 1000)
    waiting.put([b"one"])
    _, started = served(waiting)
    assert started == [3]


def test_the_next_writer_is_started_after_the_last_has_found_nothing() -> None:
    outbox, started = served(made(100, 1000))
    outbox.put([b"one"])
    outbox.take()
    outbox.put([b"four"])
    assert started == [3], "the first writer has not ended"
    outbox.take()
    assert outbox.take() == []
    outbox.put([b"seven"])
    assert started == [3, 5]


def test_an_outbox_is_full_above_the_soft_limit_and_over_above_the_hard_limit() -> None:
    outbox = made(3, 6)
    outbox.put([b"123"])
    assert (outbox.full, outbox.over) == (False, False)
    outbox.put([b"4"])
    assert (outbox.full, outbox.over) == (True, False)
    outbox.put([b"56"])
    assert (outbox.full, outbox.over) == (True, False)
    outbox.put([b"7"])
    assert (outbox.full, outbox.over) == (True, True)


def test_a_long_queue_is_taken_in_pieces_and_nothing_is_left_out() -> None:
    outbox = made(TAKE, 100 * TAKE)
    frames = [bytes([number]) * (TAKE // 3) for number in range(10)]
    outbox.put(frames)
    pieces: list[list[bytes]] = []
    while not outbox.empty:
        pieces.append(outbox.take())
    assert [frame for piece in pieces for frame in piece] == frames
    assert max(map(len, pieces)) == 4, "up to the frame that completes the piece"
    assert (outbox.size, outbox.full) == (0, False)


def test_a_frame_larger_than_a_piece_is_taken_whole() -> None:
    outbox = made(1, 100 * TAKE)
    outbox.put([b"x" * 2 * TAKE, b"y"])
    assert outbox.take() == [b"x" * 2 * TAKE]
    assert outbox.take() == [b"y"]


def test_the_meter_counts_what_waits() -> None:
    transport = MemoryTransport()
    outbox, meter = made(100, 1000, transport), transport.meter
    outbox.put([b"12", b"345"])
    assert meter.size == 5
    outbox.take()
    assert meter.size == 0
    outbox.put([b"x" * TAKE, b"12"])
    outbox.take()
    assert meter.size == 2
    outbox.discard()
    assert meter.size == 0


def test_held_commands_are_read_again_unless_too_much_waits_for_the_peer() -> None:
    resumed: list[str] = []
    transport = MemoryTransport()
    transport.resume = lambda: resumed.append("resumed")  # type: ignore[method-assign]  # the test counts its calls
    outbox = made(100, 1000, transport)
    outbox.release_commands()
    assert resumed == []
    outbox.hold_commands()
    assert outbox.crowded
    outbox.release_commands()
    assert (outbox.crowded, resumed) == (False, ["resumed"])
    outbox.hold_commands()
    outbox.put([b"x" * 201])
    outbox.release_commands()
    assert (outbox.crowded, resumed) == (True, ["resumed"])


def test_frames_are_written_at_once_unless_others_wait_and_each_write_counts_as_work() -> None:
    transport, budget, traffic = MemoryTransport(), StepBudget(), Traffic()
    outbox, started = served(Outbox(100, 1000, transport, budget, traffic))
    left = budget.left
    outbox.put([b"one"])
    assert (transport.got, outbox.empty, started) == ([b"one"], True, [])
    assert (left - budget.left, traffic.frames_sent, traffic.bytes_sent) == (PUT, 1, 3)
    transport.eager = False
    outbox.put([b"two"])
    transport.eager = True
    outbox.put([b"three"])
    assert (transport.got, outbox.take(), started) == ([b"one"], [b"two", b"three"], [3])
    assert traffic.frames_sent == 1, "the writer counts the others"


def test_nothing_is_written_after_the_outbox_is_closed() -> None:
    transport = MemoryTransport()
    outbox, started = served(made(100, 1000, transport))
    outbox.close()
    outbox.put([b"one"])
    assert outbox.take() == []
    outbox.put([b"two"])
    assert (transport.got, started, outbox.take()) == ([], [], [])


async def test_the_writer_tells_each_time_that_all_is_written() -> None:
    transport, written = MemoryTransport(), list[int]()
    outbox = made(100, 1000, transport)
    outbox.put([b"one", b"two"])
    await outbox.write(lambda: written.append(len(transport.got)))
    assert (transport.got, written) == ([b"one", b"two"], [2])


async def test_frames_for_a_peer_that_is_gone_are_dropped_and_its_commands_are_read() -> None:
    transport, resumed = MemoryTransport(), list[str]()
    transport.resume = lambda: resumed.append("resumed")  # type: ignore[method-assign]  # the test counts its calls
    transport.broken = True
    outbox = made(1, 1000, transport)
    outbox.put([b"one"])
    with pytest.raises(BrokenPipeError):
        await outbox.write(lambda: None)
    assert (outbox.empty, outbox.closed, resumed) == (True, True, ["resumed"])
