"""Demo backends, one for each endpoint, in one process: no pair of `pairs` may hear what another one's backend says.

python -m tests.bench.demos ENDPOINT...
"""

from __future__ import annotations

import asyncio
import sys

import uvloop

from dragoman.gateway import logs
from dragoman.gateway.demo.app import demo_backend
from dragoman.gateway.endpoint import parse


async def main(endpoints: list[str]) -> None:
    """Serve them; each is told in its turn as a gateway tells it."""
    async with asyncio.TaskGroup() as group:
        for endpoint in endpoints:
            ready: asyncio.Queue[str] = asyncio.Queue()
            group.create_task(demo_backend(parse(endpoint)).run(ready.put_nowait), name=endpoint)
            print(f"listening {await ready.get()}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    logs.configure("warning")
    uvloop.run(main(sys.argv[1:]))
