"""A gateway without garbage collections: `python -m tests.gateway.collected_gateway CONFIG`.

Each line on stdin is answered with a line of JSON: the types of the objects that only the garbage collector can free,
with their numbers.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections import Counter
from pathlib import Path

import uvloop

from dragoman.gateway.app import App
from dragoman.gateway.config.check import load
from dragoman.gateway.observability import logs


async def main(config: Path) -> None:
    logs.configure("warning", as_json=False)
    app = App(load(config))
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), answer, app)
    gc.disable()
    await app.run(lambda endpoint: logs.write_line(f"listening {endpoint}", sys.stderr))


def answer(app: App) -> None:
    """Answer a line of stdin, and stop at its end."""
    if not sys.stdin.readline():
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        app.stop.set()
        return
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    garbage = Counter(f"{type(it).__module__}.{type(it).__qualname__}" for it in gc.garbage)
    gc.garbage.clear()
    gc.set_debug(0)
    gc.collect()  # those that the list kept
    sys.stdout.write(json.dumps(garbage) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1])))
