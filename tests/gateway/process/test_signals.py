"""Signals of a process that runs one task: they stop it, end it at once, or reload."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from dragoman.adapters.base import TransportLimits
from dragoman.adapters.stdio.process import ChildLimits
from dragoman.gateway import link
from dragoman.gateway.observability import log_queue, tracing
from dragoman.gateway.ops import server
from dragoman.gateway.process.signals import END_MAX, stop_on_signals
from dragoman.gateway.recording import redaction_worker, writer
from tests.idle import settle

NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
DEADLINE = 20.0


@asynccontextmanager
async def running(reload: Callable[[], None] | None = None) -> AsyncIterator[tuple[asyncio.Task[bool], asyncio.Event]]:
    """Run a task that handles signals and never ends by itself, and its event `stop`."""
    stop = asyncio.Event()

    async def main() -> bool:
        stop_on_signals(stop, reload)
        return await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(main(), name="main")
        await settle()
        try:
            yield task, stop
        finally:
            task.cancel()
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number in NUMBERS:
                asyncio.get_running_loop().remove_signal_handler(number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_sets_the_event_and_lets_the_task_run(number: signal.Signals) -> None:
    async with running() as (task, stop), asyncio.timeout(DEADLINE):
        os.kill(os.getpid(), number)
        await stop.wait()
        assert not task.cancelling()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_the_task(number: signal.Signals) -> None:
    async with running() as (task, stop), asyncio.timeout(DEADLINE):
        os.kill(os.getpid(), number)
        await stop.wait()
        os.kill(os.getpid(), number)
        await asyncio.wait([task])
        assert task.cancelled()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_the_first_signal_lets_a_task_run_that_is_stopping_already(number: signal.Signals) -> None:
    async with running() as (task, stop), asyncio.timeout(DEADLINE):
        stop.set()
        os.kill(os.getpid(), number)
        await settle()
        assert not task.cancelling()
        os.kill(os.getpid(), number)
        await asyncio.wait([task])
        assert task.cancelled()


STUCK = """
import asyncio, os, signal, threading
from dragoman.gateway.process import signals

async def main():
    stop = asyncio.Event()
    signals.stop_on_signals(stop)
    os.kill(os.getpid(), signal.{0})
    try:
        await stop.wait()
    finally:
        threading.Event().wait()

signals.END_MAX = 0.05
asyncio.run(main())
"""


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT", "SIGQUIT"])
def test_a_process_that_is_stuck_at_its_end_is_ended_by_the_system(number: str) -> None:
    program = [sys.executable, "-c", STUCK.format(number)]
    assert subprocess.run(program, check=False, timeout=DEADLINE).returncode == -signal.SIGALRM


def test_a_process_that_keeps_all_deadlines_of_its_end_is_not_ended_by_the_system() -> None:
    child = ChildLimits()
    peers = link.FLUSH_DEADLINE + TransportLimits().close_deadline
    children = child.eof_wait + child.term_wait + child.kill_wait + 2 * child.term_wait  # its group, and strays
    recordings = redaction_worker.CLOSE_DEADLINE + writer.CLOSE_DEADLINE
    others = tracing.FLUSH_DEADLINE + 2 * server.CLOSE_DEADLINE + log_queue.FLUSH_DEADLINE
    assert peers + children + recordings + others < END_MAX


async def test_sighup_reloads_a_process_that_can_reload() -> None:
    reloads = asyncio.Event()
    async with running(reloads.set) as (_, stop), asyncio.timeout(DEADLINE):
        os.kill(os.getpid(), signal.SIGHUP)
        await reloads.wait()
        assert not stop.is_set()


async def test_sighup_that_was_ignored_at_the_start_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        async with running():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
