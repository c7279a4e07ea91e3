"""The interpreter, the threads and the free memory of a serving program."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import msgspec
import pytest
import uvloop

from dragoman.gateway.cli.running import set_up
from dragoman.gateway.launched.route import run_program
from dragoman.gateway.process import runtime
from dragoman.gateway.process.runtime import DIGITS_MAX, LIBUV_THREADS, THREADS, run_in_background, start_threads
from dragoman.gateway.recording.session_redactor import INLINE_MAX
from dragoman.mappings.errors import DragomanError
from tests.awaited import until
from tests.conformance.fake_smooth import FakeSmooth
from tests.pairs.gateway import DEADLINE, SmoothClient
from tests.peers.processes import running


def set_up_command() -> None:
    set_up("info", log_json=False)


def run_launched() -> None:
    with pytest.raises(SystemExit) as ended:
        run_program(lambda: asyncio.sleep(0))
    assert ended.value.code == 0


@pytest.mark.parametrize("start", [set_up_command, run_launched])
def test_a_serving_program_reads_no_integer_of_a_thousand_digits(start: Callable[[], None]) -> None:
    start()
    assert msgspec.json.decode(b"9" * DIGITS_MAX) == 10**DIGITS_MAX - 1
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(b"9" * (DIGITS_MAX + 1))


@pytest.mark.parametrize("start", [set_up_command, run_launched])
def test_a_serving_program_waits_for_a_busy_thread_only_shortly(start: Callable[[], None]) -> None:
    start()
    assert sys.getswitchinterval() <= 0.001, "seconds for each system call of the event loop while a thread redacts"


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


def refuse_after(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the system refuse each thread after `count` further ones."""
    left, start = iter(range(count)), Thread.start

    def start_or_refuse(thread: Thread) -> None:
        if next(left, None) is None:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(Thread, "start", start_or_refuse)


@pytest.mark.parametrize("count", [0, THREADS + LIBUV_THREADS - 1], ids=["the first", "the last of libuv"])
async def test_a_gateway_that_the_system_refuses_a_thread_says_so(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_after(count, monkeypatch)
    with pytest.raises(DragomanError, match="the limit of processes"):
        await start_threads()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the threads that it counts")
async def test_the_threads_of_libuv_start_once_the_system_counts_none_of_those_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def threads() -> set[str]:
        return set(os.listdir("/proc/self/task"))

    async def start_those_of_libuv(*_address: object) -> None:
        assert len(threads() - before) <= 1  # Linux may leave one out while another one ends

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", start_those_of_libuv)
    for _ in range(200):  # a thread is often gone in time
        before = threads()
        await start_threads(1)


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_gateway_that_the_system_refuses_a_thread_can_end(
    loop: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(start_threads())
        refuse_after(0, monkeypatch)


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


BLOCKS, SIZE = 1000, 60_000  # bytes: below the size that glibc maps apart from its heap
FREED = f"""
import os
from dragoman.gateway.process.runtime import trim

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

blocks = [b"x" * {SIZE} for _ in range({BLOCKS})]
last = blocks[-1]
del blocks
kept = resident()
trim()
print(kept - resident())
"""


def is_glibc() -> bool:
    try:
        return bool(os.confstr("CS_GNU_LIBC_VERSION"))
    except ValueError:
        return False


@pytest.mark.skipif(not is_glibc(), reason="another C library has no malloc_trim")
def test_free_memory_below_a_block_in_use_is_returned() -> None:
    program = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, check=True)
    assert int(program.stdout) > 0.9 * BLOCKS * SIZE


def test_a_python_without_ctypes_keeps_its_free_memory_without_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctypes", None)
    runtime.trim()


async def test_free_memory_is_returned_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, twice, calls = asyncio.get_running_loop(), asyncio.Event(), list[None]()

    def trim() -> None:
        calls.append(None)
        if len(calls) == 2:
            loop.call_soon_threadsafe(twice.set)

    monkeypatch.setattr(runtime, "EVERY", 0.0)
    monkeypatch.setattr(runtime, "trim", trim)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        returning = group.create_task(runtime.return_free_memory(), name="heap")
        await twice.wait()
        returning.cancel()
