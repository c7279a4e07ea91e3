"""Free memory that the C library keeps goes back to the system.

glibc keeps what is freed below blocks that are in use: 150 MiB and more after a burst of large messages, and a few MiB
after many small ones. Large blocks that are always mapped by themselves would go back at once, but then large messages
take twice the CPU (docs/reliability.md, section 3).
"""

from __future__ import annotations

import asyncio

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
