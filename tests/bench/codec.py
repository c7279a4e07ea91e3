"""G1 and G2: pod bytes to smooth bytes, ours against msgspec without a hub and against the standard library.

Every variant gets the same frames in the same batches and the clock once a batch. Before anything is measured all of
them must have written the same JSON. The variants of one kind run one after the other, in another order each round;
time is this process's CPU time, so that others on the machine count little.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from tests.bench.direct import DIRECT
from tests.bench.direct import Turn as DirectTurn
from tests.bench.material import BATCH, KINDS, Kind, turn
from tests.bench.ours import Bare, Live
from tests.bench.plain import PLAIN
from tests.bench.processes import cores, pin

SAMPLE = 0.02  # seconds that one variant runs at least in one round
DELTAS = 2_000  # of the whole turn: an answer of two pages
NOW = 1_779_800_000_000

LIVE = ("text_delta live", "whole turn live")

Translate = Callable[[Sequence[bytes], int], list[bytes]]


class Sample(Struct, frozen=True, kw_only=True):
    """The result of a kind of event in a round: ns for one event of the pod, by variant; `json` is 0 where it is not
    measured.
    """

    kind: str
    writes: str
    ours: float
    direct: float
    json: float = 0.0


class Case(Struct, frozen=True, kw_only=True):
    """One line: `batches` are translated in order, each variant by a translator that is fresh before the first."""

    kind: str
    writes: str
    batches: list[list[bytes]]
    variants: dict[str, Callable[[], Translate]]

    @property
    def events(self) -> int:
        return sum(map(len, self.batches))


def measure(rounds: int) -> list[list[Sample]]:
    """The samples of each round."""
    pair = cores()
    if pair is not None:
        pin(pair[1])
    cases = [_case(kind) for kind in KINDS] + _live_cases()
    for case in cases:
        _agree(case)
    gc.collect()
    gc.freeze()  # as the gateway does
    taken = []
    for number in range(rounds):
        print(f"codec: round {number + 1} of {rounds} ...", file=sys.stderr, flush=True)
        taken.append([_sample(case, number) for case in cases])
    return taken


def _case(kind: Kind) -> Case:
    return Case(
        kind=kind.name,
        writes=kind.writes,
        batches=[list(kind.frames) * BATCH],
        variants={
            "ours": lambda: Bare(kind.session).translate,
            "direct": lambda: DIRECT[kind.name],
            "json": lambda: PLAIN[kind.name],
        },
    )


def _live_cases() -> list[Case]:
    """Return the cases with the work of link and session; a hand-written translator would keep some state too."""
    whole = turn(DELTAS)
    first = next(at for at, frame in enumerate(whole) if b"text_delta" in frame)
    deltas = [whole[first]] * DELTAS
    variants: dict[str, Callable[[], Translate]] = {
        "ours": lambda: Live().translate,
        "direct": lambda: DirectTurn().translate,
    }
    return [
        Case(kind=kind, writes=writes, batches=_batches(frames), variants=variants)
        for kind, writes, frames in zip(LIVE, ("stream_token", "all of it"), (deltas, whole), strict=True)
    ]


def _batches(frames: list[bytes]) -> list[list[bytes]]:
    return [frames[at : at + BATCH] for at in range(0, len(frames), BATCH)]


def _agree(case: Case) -> None:
    """Every variant must have written the same."""
    written = {name: _run(case, make()) for name, make in case.variants.items()}
    expected = [msgspec.json.decode(frame) for frame in written.pop("ours")]
    assert bool(expected) is bool(case.writes), f"{case.kind} writes {len(expected)} frames"
    for name, frames in written.items():
        for mine, theirs in zip(expected, map(msgspec.json.decode, frames), strict=True):
            assert mine == theirs, f"{case.kind}: ours writes {mine}, {name} {theirs}"


def _run(case: Case, translate: Translate) -> list[bytes]:
    return [frame for batch in case.batches for frame in translate(batch, NOW)]


def _sample(case: Case, number: int) -> Sample:
    names = list(case.variants)
    order = names[number % len(names) :] + names[: number % len(names)]
    taken = {name: _cost(case, case.variants[name]) for name in order}
    return Sample(
        kind=case.kind, writes=case.writes, ours=taken["ours"], direct=taken["direct"], json=taken.get("json", 0.0)
    )


def _cost(case: Case, make: Callable[[], Translate]) -> float:
    """ns for one event."""
    runs = 0
    spent = 0.0
    while spent < SAMPLE:
        translate = make()
        started = time.process_time()
        for batch in case.batches:
            translate(batch, time.time_ns() // 1_000_000)
        spent += time.process_time() - started
        runs += 1
    return spent / (runs * case.events) * 1e9
