"""An innocent client as a separate process: `python -m tests.chaos.innocent ADDRESS`.

It pings every 5 ms and measures each answer. It connects again if the gateway was killed. Each line on its stdin is the
name of a phase that begins; at the end of stdin it prints the figures of all phases as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from statistics import quantiles

import aiohttp

from tests.chaos.clients import connected

EVERY = 0.005  # seconds
RETRY = 0.05


async def main(address: str) -> None:
    phases: dict[str, list[float]] = {}
    phase: list[str] = ["start"]
    async with asyncio.TaskGroup() as group:
        pinging = group.create_task(_ping(address, phases, phase), name="pings")
        while line := await asyncio.to_thread(sys.stdin.readline):
            phase[0] = line.strip()
        pinging.cancel()
    figures = {name: _figures(times) for name, times in phases.items()}
    sys.stdout.write(json.dumps(figures) + "\n")


async def _ping(address: str, phases: dict[str, list[float]], phase: list[str]) -> None:
    while True:
        try:
            async with connected("smooth", address) as client:
                while True:
                    begun = time.perf_counter()
                    await client.ping()
                    took = time.perf_counter() - begun
                    phases.setdefault(phase[0], []).append(took)
                    await asyncio.sleep(max(0.0, EVERY - took))
        except* (OSError, aiohttp.ClientError, TimeoutError):
            pass
        await asyncio.sleep(RETRY)


def _figures(times: list[float]) -> dict[str, float]:
    p99 = quantiles(times, n=100)[98] if len(times) > 1 else times[0]
    return {"pings": len(times), "p99_ms": p99 * 1e3, "worst_ms": max(times) * 1e3}


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
