"""The memory of an idle session with its client and its pod.

tracemalloc counts what our lines allocate, themselves or in a library. So the peers of the test do not count.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import tracemalloc
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path

from dragoman import adapters, gateway, mappings
from tests.conformance.fake_pod import FakePod
from tests.pairs.gateway import SmoothClient, bridged, socket_path

WARM, COUNT = 4, 9
DEPTH = 4  # frames: enough to see what asyncio and structlog allocate for our lines
IDLE_MAX = 25_000  # bytes: 22,900 to 24,100 were measured; two sets for each client and link would exceed it
OURS = [f"{folder}/*" for package in (adapters, gateway, mappings) for folder in package.__path__]


def allocated() -> int:
    """Return the bytes in use that our packages have allocated."""
    gc.collect()
    snapshot = tracemalloc.take_snapshot()
    ours = snapshot.filter_traces([tracemalloc.Filter(True, pattern, all_frames=True) for pattern in OURS])
    return sum(trace.size for trace in ours.traces)


async def bytes_of_a_session(folder: Path) -> float:
    """Return the median of what each of the last sessions allocated; the first ones pay for decoders.

    A session during which a shared table grows pays for all: a mean would tell how many of them did so.
    """
    path = socket_path(folder)
    async with AsyncExitStack() as stack:
        for number in range(WARM + COUNT):
            pod = path.parent / f"pod{number}"
            pod.mkdir()
            await stack.enter_async_context(FakePod.serving(pod / "sock"))
        _, url = await stack.enter_async_context(bridged(f"pod+dir:{path.parent}"))
        for _ in range(WARM):
            await stack.enter_async_context(SmoothClient.connected(url))
        tracemalloc.start(DEPTH)  # not before: imports take ten times as long with it
        stack.callback(tracemalloc.stop)
        sizes = [allocated()]
        for _ in range(COUNT):
            await stack.enter_async_context(SmoothClient.connected(url))
            sizes.append(allocated())
        return statistics.median(after - before for before, after in pairwise(sizes))


def test_an_idle_session_takes_little_memory(tmp_path: Path) -> None:
    tracer = sys.gettrace()
    sys.settrace(None)  # what coverage keeps of our lines would count as theirs
    try:
        size = asyncio.run(bytes_of_a_session(tmp_path))
    finally:
        sys.settrace(tracer)
    assert IDLE_MAX / 2 < size <= IDLE_MAX
