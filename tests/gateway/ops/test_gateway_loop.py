"""Coroutines that the thread of the ops port runs in the loop of the gateway."""

from __future__ import annotations

import asyncio
import threading

import pytest

from dragoman.gateway.ops.gateway_loop import GatewayLoop


async def ident() -> int:
    return threading.get_ident()


async def test_a_coroutine_runs_in_the_thread_of_the_gateway() -> None:
    loop = GatewayLoop()
    asked = await asyncio.to_thread(lambda: asyncio.run(loop.ask(ident())))
    assert asked == threading.get_ident() == loop.thread


async def made() -> GatewayLoop:
    return GatewayLoop()


def test_a_loop_that_is_closed_answers_as_one_that_is_too_late() -> None:
    loop = asyncio.run(made())
    with pytest.raises(TimeoutError):
        asyncio.run(loop.ask(ident()))
