"""The cost of a gateway without clients: CPU until it listens, and memory while it is idle.

The peer is bare_server.py: the libraries that any such gateway imports, and one listener. Both are processes of their
own, started one after the other in each round, in another order each time. A first start of each is not counted: it
writes the bytecode of all modules, which an installed program has.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Mapping

from msgspec import Struct

from tests.bench.processes import Process, cores, pin

BARE, DRAGOMAN = "bare server", "dragoman"
SETTLE = 0.5  # seconds from `listening` to an idle process


class Sample(Struct, frozen=True, kw_only=True):
    """The result of a server in a round: seconds of CPU until it listened, and bytes in memory once it was idle."""

    server: str
    cpu: float
    memory: int


def measure(rounds: int) -> list[dict[str, Sample]]:
    """The samples of each round, by server."""
    pair = cores()
    if pair is not None:
        pin(pair[0])
    core = pair[1] if pair else None
    order = (BARE, DRAGOMAN)
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for name in order:
            _sample(name, core, environment)
        return [
            {name: _sample(name, core, environment) for name in order[:: 1 - 2 * (number % 2)]}
            for number in range(rounds)
        ]


def _sample(server: str, core: int | None, environment: Mapping[str, str]) -> Sample:
    print(f"start: {server} ...", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as folder:
        bridge = ("dragoman", "bridge", "smooth+ws://127.0.0.1:0/ws", f"pod+unix:{folder}/sock")
        arguments = bridge if server == DRAGOMAN else ("tests.bench.bare_server",)
        with Process(*arguments, core=core, environment=environment) as process:
            cpu = process.cpu()
            time.sleep(SETTLE)
            return Sample(server=server, cpu=cpu, memory=process.memory())
