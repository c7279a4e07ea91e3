"""Settling: every callback, timer that is due and byte on a socket was handled."""

from __future__ import annotations

import asyncio
import socket

import pytest
import uvloop

from tests import idle
from tests.idle import settle


async def test_a_chain_of_callbacks_runs_to_its_end() -> None:
    loop, left = asyncio.get_running_loop(), [1000]

    def step() -> None:
        left[0] -= 1
        if left[0]:
            loop.call_soon(step)

    loop.call_soon(step)
    await settle()
    assert left == [0]


async def test_a_due_timer_fires() -> None:
    rung: list[str] = []
    asyncio.get_running_loop().call_later(1e-9, rung.append, "due")
    await settle()
    assert rung == ["due"]


async def test_settle_does_not_wait_for_a_timer_that_is_not_due() -> None:
    rung: list[str] = []
    timer = asyncio.get_running_loop().call_later(1000, rung.append, "later")
    await settle()
    assert rung == []
    timer.cancel()


async def test_bytes_written_to_a_socket_by_the_last_callback_are_read() -> None:
    loop, got = asyncio.get_running_loop(), bytearray()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        loop.add_reader(theirs, lambda: got.extend(theirs.recv(9)))
        loop.call_soon(ours.send, b"last")
        await settle()
        loop.remove_reader(theirs)
    assert got == b"last"


async def test_a_task_that_never_waits_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def spin() -> None:
        while True:  # noqa: ASYNC110  # the claim is about a task that waits for nothing
            await asyncio.sleep(0)

    monkeypatch.setattr(idle, "BUSY", 50)
    async with asyncio.TaskGroup() as group:
        spinning = group.create_task(spin(), name="spinning")
        with pytest.raises(AssertionError, match="still busy after 50 turns"):
            await settle()
        spinning.cancel()


def test_on_uvloop_a_chain_of_a_few_callbacks_runs_to_its_end() -> None:
    async def chain() -> int:
        loop, left = asyncio.get_running_loop(), [20]

        def step() -> None:
            left[0] -= 1
            if left[0]:
                loop.call_soon(step)

        loop.call_soon(step)
        await settle()
        return left[0]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(chain()) == 0
