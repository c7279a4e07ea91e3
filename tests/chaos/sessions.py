"""Sessions that are opened and left, with a `session_ttl` of 5 s: what each costs, and what stays in memory.

The gateway is a process, as a user starts it. The smooth clients and their backend are in this process.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from msgspec import Struct

from dragoman.gateway.config.model import Limits
from dragoman.gateway.demo.backend import demo_backend
from dragoman.gateway.endpoint import parse
from tests.chaos.clients import connected
from tests.chaos.kills import limits_table, route_table
from tests.chaos.processes import running
from tests.pairs.gateway import serving
from tests.pairs.table import LISTEN

SESSIONS = 100_000
FIRST = 1_000  # sessions after which the memory is the one to compare with
AT_ONCE = 50  # clients at the same time
LIMITS = Limits(session_ttl=5.0, connection_rate=1e5, connection_burst=1_000_000)
RATE = FIRST / LIMITS.session_ttl  # sessions a second: as many live at the same time later as after the first thousand
TICK = 1 / os.sysconf("SC_CLK_TCK")


class SessionsSample(Struct, frozen=True, kw_only=True):
    """The gateway after so many sessions: memory in bytes, descriptors, and seconds of CPU for each further one."""

    opened: int
    memory: int
    descriptors: int
    cpu: float


async def leave_sessions(folder: Path, sessions: int, tell: Callable[[str], None]) -> list[SessionsSample]:
    """Open and leave so many sessions; look at the gateway after the first thousand and ten times afterwards.

    Raises ExceptionGroup if a client cannot open its session.
    """
    samples: list[SessionsSample] = []
    async with AsyncExitStack() as stack:
        (backend,) = await stack.enter_async_context(serving(demo_backend(parse(LISTEN["smooth"]), limits=LIMITS)))
        config = folder / "gateway.toml"
        route = route_table("left", [LISTEN["smooth"]], backend)
        config.write_text("\n".join([route, limits_table(LIMITS)]))
        gateway = await stack.enter_async_context(
            running("dragoman", "serve", "--config", str(config), "--log-level", "warning")
        )
        address = gateway.endpoints[0].removeprefix("smooth+")
        opened, cpu = 0, _cpu(gateway.pid)
        for goal in sorted({min(FIRST, sessions), *(sessions * part // 10 for part in range(1, 11))}):
            await _open_and_leave(address, goal - opened)
            spent = _cpu(gateway.pid) - cpu
            sample = SessionsSample(
                opened=goal,
                memory=gateway.resident(),
                descriptors=gateway.descriptors(),
                cpu=spent / (goal - opened),
            )
            samples.append(sample)
            opened, cpu = goal, cpu + spent
            tell(f"{goal:,} sessions: {sample.memory / (1 << 20):.1f} MiB, {1e3 * sample.cpu:.2f} ms of CPU each")
    return samples


def memory_growth(samples: list[SessionsSample]) -> float:
    """Return the memory after all sessions, as a multiple of that after the first thousand."""
    return samples[-1].memory / samples[0].memory


async def _open_and_leave(address: str, count: int) -> None:
    """Let so many clients open a session and leave, RATE a second."""
    waiting, now = iter(range(count)), asyncio.get_running_loop().time
    begun = now()

    async def visit() -> None:
        for number in waiting:
            await asyncio.sleep(begun + number / RATE - now())
            async with connected("smooth", address) as client:
                await client.open()

    async with asyncio.TaskGroup() as group:
        for number in range(AT_ONCE):
            group.create_task(visit(), name=f"visitor {number}")


def _cpu(pid: int) -> float:
    """Return the seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK
