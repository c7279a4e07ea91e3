"""Free memory of the C library goes back to the system."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from dragoman.gateway.process import heap

BLOCKS, SIZE = 1000, 60_000  # bytes: below the size that glibc maps apart from its heap
FREED = f"""
import os
from dragoman.gateway.process.heap import trim

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
    heap.trim()


async def test_free_memory_is_returned_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, twice, calls = asyncio.get_running_loop(), asyncio.Event(), list[None]()

    def trim() -> None:
        calls.append(None)
        if len(calls) == 2:
            loop.call_soon_threadsafe(twice.set)

    monkeypatch.setattr(heap, "EVERY", 0.0)
    monkeypatch.setattr(heap, "trim", trim)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        returning = group.create_task(heap.return_free_memory(), name="heap")
        await twice.wait()
        returning.cancel()
