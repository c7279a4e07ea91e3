"""Set up a serving program: its interpreter, its threads, and the return of free memory by the C library.

A limit of processes (`ulimit -u`, `pids.max` of a control group) counts threads, too, and a child that starts processes
without end uses it up. asyncio starts threads when it first needs them. Then the task that needs one would fail, and
the gateway with it. libuv starts its threads for the first connection to a TCP address, and aborts the process if it
cannot. So all threads are started with the gateway.

glibc keeps what is freed below blocks that are in use: 150 MiB and more after a burst of large messages, and a few MiB
after many small ones. Large blocks that are always mapped by themselves would go back at once, but then large messages
take twice the CPU (docs/reliability.md, section 3).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Thread, get_native_id

from dragoman.mappings.errors import DragomanError

DIGITS_MAX = 640  # digits of an integer that is read, the least limit of Python: 4,000 digits take 0.1 ms each time

SWITCH = 0.0005  # seconds that the event loop waits for another thread after each system call, instead of Python's 5 ms


def configure_interpreter() -> None:
    """Bound the integers that are read from text, and how long a busy thread may delay the event loop."""
    sys.set_int_max_str_digits(DIGITS_MAX)
    sys.setswitchinterval(SWITCH)


THREADS = 6  # as many as asyncio starts on a machine with two cores; each takes 30 KB
LIBUV_THREADS = 4  # the size of its pool unless UV_THREADPOOL_SIZE is set
REFUSED = "can't start new thread: the limit of processes (`ulimit -u`, `pids.max`) or memory (`ulimit -v`) is too low"


async def start_threads(count: int = THREADS) -> None:
    """Start `count` threads for `asyncio.to_thread`, and those of libuv. Raise DragomanError if the system refuses.

    As many threads as libuv needs are started and ended before, because a refusal could not be reported afterwards.
    """
    loop = asyncio.get_running_loop()
    executor, probe = ThreadPoolExecutor(count, initializer=run_in_background), ThreadPoolExecutor(LIBUV_THREADS)
    all_run = Barrier(count + LIBUV_THREADS + 1)

    def wait_for_all() -> int:
        all_run.wait()
        return get_native_id()

    try:
        threads = [pool.submit(wait_for_all) for pool in (*[executor] * count, *[probe] * LIBUV_THREADS)]
    except RuntimeError as error:
        all_run.abort()
        raise DragomanError(REFUSED) from error
    all_run.wait()
    probe.shutdown()
    for thread in threads[count:]:
        _wait_until_gone(thread.result())
    loop.set_default_executor(executor)
    loop.shutdown_default_executor = _end_without_a_thread  # type: ignore[method-assign]  # asyncio's own starts one
    await loop.getaddrinfo("127.0.0.1", None)


def _wait_until_gone(thread: int) -> None:
    """Wait, at most a second, until Linux no longer counts a thread: that is a moment after Python has seen its end."""
    for _ in range(1000):
        if not os.path.exists(f"/proc/self/task/{thread}"):
            return
        time.sleep(0.001)


def start_thread(thread: Thread) -> None:
    """Start a thread. Raise DragomanError if the system refuses."""
    try:
        thread.start()
    except RuntimeError as error:
        raise DragomanError(REFUSED) from error


async def _end_without_a_thread(_timeout: float | None = None) -> None:
    """Leave the threads of an event loop to the interpreter, which waits for them when it exits."""


def run_in_background() -> None:
    """Let the calling thread wait for a free CPU when it wakes, instead of preempting the event loop.

    The loop would soon preempt it in turn, because only one of the two can hold the lock of the interpreter. The thread
    keeps its share of the CPU. On other systems than Linux this does nothing, nor if an operator has chosen a policy
    for the gateway: threads of an idle one would take the CPU from others, and those of a real-time one would wait for
    others.
    """
    with contextlib.suppress(OSError):  # a sandbox may forbid it, and musl has neither call
        if sys.platform == "linux" and os.sched_getscheduler(0) == os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


EVERY = 60.0  # seconds: with little to return, a call takes 1 ms


async def return_free_memory() -> None:
    """Return the free memory of the C library once a minute, in a thread."""
    while True:
        await asyncio.sleep(EVERY)
        await asyncio.to_thread(trim)


def trim() -> None:
    """Return whole pages of free memory now; do nothing if the C library has no call for it."""
    try:
        import ctypes  # 9 ms at the start, which need not wait for it
    except ImportError:  # a Python that was built without libffi
        return

    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)
