"""The threads of a gateway start with it."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dragoman.gateway.process.threads import THREADS, run_in_background, start_threads
from dragoman.gateway.recording.session_redactor import INLINE_MAX
from dragoman.mappings.errors import DragomanError
from tests.awaited import until
from tests.conformance.fake_smooth import FakeSmooth
from tests.pairs.gateway import DEADLINE, SmoothClient
from tests.peers.processes import running


@pytest.mark.skipif(sys.platform != "linux", reason="the threads of another process can be listed on Linux only")
async def test_no_thread_starts_after_a_gateway_listens(tmp_path: Path) -> None:
    options = ("--record", f"{tmp_path}/")
    async with (
        asyncio.timeout(2 * DEADLINE),
        FakeSmooth.serving() as backend,
        running("bridge", "smooth+ws://127.0.0.1:0/ws", backend.url, *options) as process,
    ):
        tasks = f"/proc/{process.process.pid}/task"
        before = set(os.listdir(tasks))
        async with SmoothClient.connected(process.url) as client:
            await client.turn("word " * INLINE_MAX)  # a connection to a TCP address, and a text for redaction
        await until(lambda: any("word word" in file.read_text() for file in tmp_path.iterdir()))
        assert set(os.listdir(tasks)) == before


async def test_a_gateway_that_the_system_refuses_a_thread_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", refuse)
    with pytest.raises(DragomanError, match="the limit of processes"):
        await start_threads()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a thread wait for a free CPU")
async def test_a_thread_that_wakes_does_not_take_the_cpu_from_the_event_loop() -> None:
    await start_threads()
    policies = {await asyncio.to_thread(os.sched_getscheduler, 0) for _ in range(THREADS)}
    assert (policies, os.sched_getscheduler(0)) == ({os.SCHED_BATCH}, os.SCHED_OTHER)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this policy")
def test_a_thread_keeps_the_policy_that_an_operator_has_chosen() -> None:
    def policy() -> int:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))  # of this thread alone
        run_in_background()
        return os.sched_getscheduler(0)

    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(policy).result() == os.SCHED_IDLE


async def test_threads_start_where_no_policy_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_pid: int) -> int:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(os, "sched_getscheduler", missing, raising=False)
    run_in_background()
    await start_threads(1)
