"""G3 and G4: one session at full speed, pod socket to WebSocket, dragoman against the two naive bridges.

Every bridge is a process of its own on its own core, with the same backend and the same client on the other; each round
starts all three anew, one after the other, so that a slow minute of the machine strikes all alike. Each turn is
checked whole: a bridge that loses or reorders a token has no figure. Sizes differ in the number of turns only, so that
each sample lasts about as long.
"""

from __future__ import annotations

import sys
import tempfile

from msgspec import Struct

from tests.bench.backend import answer
from tests.bench.client import Client
from tests.bench.processes import Process, cores, pin

__all__ = [
    "BRIDGES",
    "DRAGOMAN",
    "NAIVE_AIOHTTP",
    "NAIVE_WEBSOCKETS",
    "TURN",
    "WARM_UP",
    "Sample",
    "answer",
    "checked",
    "measure",
]

DRAGOMAN, NAIVE_WEBSOCKETS, NAIVE_AIOHTTP = "dragoman", "naive websockets", "naive aiohttp"
BRIDGES = (NAIVE_WEBSOCKETS, NAIVE_AIOHTTP, DRAGOMAN)

TURN = 50_000  # deltas: with these words a terminal of 170 kB, far below the megabyte that smooth clients read
TURNS = {NAIVE_WEBSOCKETS: 1, NAIVE_AIOHTTP: 1, DRAGOMAN: 12}
WARM_UP = 5_000  # deltas of a turn that is not measured


class Sample(Struct, frozen=True, kw_only=True):
    """The result of a bridge in a round. `merged` counts deltas that arrived inside another's frame."""

    bridge: str
    events: int
    seconds: float
    cpu: float
    merged: int

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / self.seconds


def measure(rounds: int, quick: bool) -> list[list[Sample]]:
    """The samples of each round."""
    pair = cores()
    if pair is not None:
        pin(pair[0])
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as folder:
        pod = f"{folder}/sock"
        with Process("tests.bench.backend", pod, core=pair[0] if pair else None):
            return [
                [_sample(bridge, pod, quick, pair[1] if pair else None) for bridge in BRIDGES] for _ in range(rounds)
            ]


def _sample(bridge: str, pod: str, quick: bool, core: int | None) -> Sample:
    print(f"bulk: {bridge} ...", file=sys.stderr, flush=True)
    with Process(*_command(bridge, pod), core=core) as process:
        client = Client(process.endpoint.partition("+")[2])
        checked(client, WARM_UP)
        before = process.cpu()
        turns = max(1, TURNS[bridge] // (3 if quick else 1))
        taken = [checked(client, TURN) for _ in range(turns)]
        cpu = process.cpu() - before
        client.close()
    return Sample(
        bridge=bridge,
        events=turns * TURN,
        cpu=cpu,
        seconds=sum(seconds for seconds, _ in taken),
        merged=sum(merged for _, merged in taken),
    )


def _command(bridge: str, pod: str) -> tuple[str, ...]:
    if bridge == DRAGOMAN:
        return ("dragoman", "bridge", "smooth+ws://127.0.0.1:0/ws", f"pod+unix:{pod}", "--log-level", "warning")
    return (f"tests.bench.{bridge.replace(' ', '_')}", pod)


def checked(client: Client, count: int) -> tuple[float, int]:
    """Run a turn; return its seconds and how many deltas were merged."""
    seen = client.turn(str(count))
    expected = answer(count)
    assert seen.text == expected, f"{len(seen.text)} characters in tokens instead of {len(expected)}"
    assert seen.final == expected, f"{len(seen.final)} characters in the terminal instead of {len(expected)}"
    assert seen.frames <= count, f"{seen.frames} tokens instead of {count}"
    return seen.seconds, count - seen.frames
