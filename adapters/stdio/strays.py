"""Processes that a child has started in sessions of their own: daemons, language servers.

A signal to the child's group does not reach them. Each process inherits a variable that marks the child, so they are
found by their environment (Linux only). A process that clears its environment is not found.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from dragoman.adapters.stdio.watchdog_program import MARK, find_marked, send

POLL = 0.05  # seconds between two looks for what has ended


async def end_strays(mark: str, log: FilteringBoundLogger, *, reap: bool, wait: float) -> None:
    """Log the processes that outlive a child whose group has ended. With `reap`, end them: SIGTERM, and SIGKILL after
    `wait` seconds.
    """
    variable = f"{MARK}={mark}"
    strays = await asyncio.to_thread(find_marked, variable)
    if not strays:
        return
    names = ", ".join(f"{_name(pid)} ({pid})" for pid in strays)
    if not reap:
        log.warning(
            'processes of the child still run in sessions of their own; the route\'s `reap = "all"` would end them',
            left=names,
        )
        return
    log.info("end the processes that the child left in sessions of their own", left=names)
    for number in (signal.SIGTERM, signal.SIGKILL):
        until = asyncio.get_running_loop().time() + wait
        send(strays, number, os.kill)
        while strays and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(POLL)
            strays = await asyncio.to_thread(find_marked, variable)


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
    except OSError:  # it has ended meanwhile
        return "?"
