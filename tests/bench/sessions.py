"""The cost of sessions that were opened and left, with a `session_ttl` of 5 s: memory, and CPU of each further one.

Clients and backend are in this process, and its clock is moved by hand: 1,000 sessions are opened in 5 s. The process
is a new one, so that nothing else counts as memory. A report without a goal: tests/gateway/routing/test_forgetting.py
counts what is left of 2,000 sessions.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct

from tests.bench.text import Report
from tests.gateway.routing.counted_route import CountedRoute

COUNT, QUICK_COUNT = 100_000, 10_000
FIRST = 1_000
AT_ONCE = 100  # sessions that are opened in half a second
PAGE = 4096  # bytes


class Sample(Struct, frozen=True, kw_only=True):
    """The process after so many sessions: those still there, memory in MiB, and CPU of each of the last ones in us."""

    opened: int
    live: int
    memory: float
    cpu: float


def measure(quick: bool) -> list[Sample]:  # as all parts are called
    """Measure in a process of its own."""
    count = QUICK_COUNT if quick else COUNT
    ran = subprocess.run(  # our own module
        [sys.executable, "-m", "tests.bench.sessions", str(count)], check=True, stdout=subprocess.PIPE
    )
    return msgspec.json.decode(ran.stdout, type=list[Sample])


def sessions_report(samples: list[Sample]) -> Report:
    """Return the rows; there is no goal."""
    rows = [["sessions opened", "still there", "memory, MiB", "CPU of each, us"]]
    rows += [[f"{s.opened:,}", f"{s.live:,}", f"{s.memory:.1f}", f"{s.cpu:.0f}"] for s in samples]
    return Report(figures=[], rows=rows)


def run(count: int) -> list[Sample]:
    """Open and leave so many sessions, and look after the first thousand and after each quarter of the others."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    route = CountedRoute(ttl=5.0)
    samples: list[Sample] = []
    opened = 0
    for goal in (FIRST, *(FIRST + (count - FIRST) * part // 4 for part in (1, 2, 3, 4))):
        before, begun = opened, time.process_time()
        while opened < goal:
            route.open_and_leave(AT_ONCE)
            route.time.passes(0.5)
            opened += AT_ONCE
        cpu = (time.process_time() - begun) / (opened - before) * 1e6
        memory = int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 2**20
        samples.append(Sample(opened=opened, live=len(route.router.sessions), memory=memory, cpu=cpu))
    return samples


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(run(int(sys.argv[1]))))
