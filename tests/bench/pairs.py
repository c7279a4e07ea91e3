"""Every pair of dialects: how fast a turn gets through a gateway from a backend of one to a client of the other.

One gateway and one process of demo backends serve all pairs, each pair by a route and a backend of its own, so that
nobody hears another pair's words; idle ones cost nothing. In each round every pair plays one turn of `count N`, one
after the other, and each turn is checked whole. What is compared is the rate, and the gateway's CPU: the backend is a
demo and shares its core with the client, so the rate is as much theirs as the gateway's. No goal: it shows which pair
is the odd one out.

A further dialect is one entry of ENDPOINTS here and one of CALLERS.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

from msgspec import Struct

from tests.bench.callers import CALLERS, Caller
from tests.bench.processes import Process, cores, pin

__all__ = ["BASE", "PAIRS", "Sample", "measure"]

ENDPOINTS = {  # where a pair's gateway or backend listens, by the pair's own path
    "smooth": "smooth+ws://127.0.0.1:0/ws",
    "pod": "pod+unix:{path}",
    "pando": "pando+tcp://127.0.0.1:0",
    "codewhale": "codewhale+unix:{path}",
}
PAIRS = list(product(ENDPOINTS, ENDPOINTS))  # client, backend
BASE = ("smooth", "smooth")

TURN, QUICK_TURN = 20_000, 5_000  # tokens
WARM_UP = 1_000  # tokens of a turn that is not measured


class Sample(Struct, frozen=True, kw_only=True):
    """The result of a pair in a round."""

    pair: tuple[str, str]
    events: int
    seconds: float
    cpu: float

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / self.seconds


def measure(rounds: int, quick: bool) -> list[dict[tuple[str, str], Sample]]:
    """The samples of each round, by their pair."""
    pair = cores()
    if pair is not None:
        pin(pair[0])
    load, tested = pair or (None, None)
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as folder, _backends(folder, load) as backends:
        config = Path(folder, "config.toml")
        config.write_text("".join(_routes(folder, backends)), "utf-8")
        arguments = ("dragoman", "serve", "--config", str(config), "--log-level", "warning")
        with Process(*arguments, core=tested, listeners=len(PAIRS)) as gateway:
            urls = [endpoint.partition("+")[2] for endpoint in gateway.endpoints]
            clients = {pair: CALLERS[pair[0]](url) for pair, url in zip(PAIRS, urls, strict=True)}
            for client in clients.values():
                _turn(client, WARM_UP)
            taken = []
            for number in range(rounds):
                print(f"pairs: round {number + 1} of {rounds} ...", file=sys.stderr, flush=True)
                order = PAIRS[:: 1 if number % 2 else -1]
                taken.append({pair: _sample(pair, clients[pair], gateway, quick) for pair in order})
            for client in clients.values():
                client.close()
    return taken


@contextmanager
def _backends(folder: str, core: int | None) -> Iterator[list[str]]:
    """Where the backend of each pair listens."""
    wanted = [ENDPOINTS[backend].format(path=f"{folder}/{client}-{backend}.b") for client, backend in PAIRS]
    with Process("tests.bench.demos", *wanted, core=core, listeners=len(PAIRS)) as process:
        yield process.endpoints


def _routes(folder: str, backends: list[str]) -> Iterator[str]:
    for (client, backend), upstream in zip(PAIRS, backends, strict=True):
        listen = ENDPOINTS[client].format(path=f"{folder}/{client}-{backend}.l")
        yield f'[[route]]\nname = "{client}-{backend}"\nlisten = ["{listen}"]\nupstream = "{upstream}"\n'


def _sample(pair: tuple[str, str], client: Caller, gateway: Process, quick: bool) -> Sample:
    tokens = QUICK_TURN if quick else TURN
    before = gateway.cpu()
    seconds = _turn(client, tokens)
    return Sample(pair=pair, events=tokens, seconds=seconds, cpu=gateway.cpu() - before)


def _turn(client: Caller, tokens: int) -> float:
    """Seconds of one turn, all of which came."""
    seconds, text = client.turn(f"count {tokens}")
    expected = "".join(f"{number} " for number in range(tokens))
    assert text == expected, f"{len(text)} characters instead of {len(expected)}"
    return seconds
