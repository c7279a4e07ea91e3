"""A gateway that counts its own turns: `python -m tests.chaos.gateway_process CONFIG`.

It runs on asyncio's own loop, which shows its timers. Each line on stdin is answered with a line of JSON: resident
memory, descriptors, tasks and timers.

The gateway remembers the names of sessions that it has forgotten and that their backends still have, 10,000 in each
place. Many clients would fill this memory in an hour, so its bounds are small here: the slope would show how it fills.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
from pathlib import Path

from dragoman.gateway.app import App
from dragoman.gateway.backends import catalog
from dragoman.gateway.config.check import load
from dragoman.gateway.observability import logs
from dragoman.gateway.process.runtime import return_free_memory
from dragoman.gateway.routing import session_list

PAGE = os.sysconf("SC_PAGE_SIZE")
REMEMBERED = 100  # names and rows of forgotten sessions


async def main(config: Path) -> None:
    logs.configure("warning", as_json=False)
    session_list.ROWS_MAX = catalog.NAMES_MAX = REMEMBERED
    app = App(load(config))
    app.on_signals()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_sample(), name="samples"), group.create_task(return_free_memory(), name="heap")]
        try:
            await app.run(lambda endpoint: logs.write_line(f"listening {endpoint}", sys.stderr))
        finally:
            for task in tasks:
                task.cancel()


async def _sample() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.readline():
        gc.collect()
        timers: list[asyncio.TimerHandle] = getattr(loop, "_scheduled", [])
        sample = {
            "memory": int(Path("/proc/self/statm").read_text("ascii").split()[1]) * PAGE,
            "descriptors": len(os.listdir("/proc/self/fd")),
            "tasks": len(asyncio.all_tasks()),
            "timers": sum(1 for timer in timers if not timer.cancelled()),
        }
        sys.stdout.write(json.dumps(sample) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
