"""The programs behind `make chaos`, `make soak` and `make sessions`.

    python -m tests.chaos chaos [--seconds 300] [--seed S] [--no-write]
    python -m tests.chaos soak [--minutes 10] [--clients 200] [--seed S] [--write]
    python -m tests.chaos sessions [--sessions 100000] [--write]

The exit code is 1 if a turn was lost or ended twice, if something stayed broken, or if left sessions took more memory.
Durations do not matter.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from random import Random, SystemRandom

from dragoman.gateway.observability import logs
from dragoman.gateway.process.runtime import trim
from tests.chaos.faults import FaultKind, choose_rounds
from tests.chaos.kills import KILLS, KillTally, process_harness
from tests.chaos.pair import Tally, faulty_pair, play_rounds
from tests.chaos.report import RELIABILITY, ChaosRun, chaos_report, replace_section, sessions_report, soak_report
from tests.chaos.sessions import SESSIONS, leave_sessions, memory_growth
from tests.chaos.shapes import ShapeTally, play_backend_shapes, play_shapes
from tests.chaos.soak import CLIENTS, soak
from tests.pairs.table import DIALECTS, PAIRS

FULL = 300.0  # seconds of a full run
CUTS = 400  # of connections in a full run, beside the rounds with every fault
ROUNDS = 24  # of each pair in a full run, with every fault in turn
KILLED = 100  # programs in a full run
SHAPE = 4 << 20  # bytes of each shape in a full run
SHAPE_LEAST = 64 << 10
ABREAST = 4  # pairs that run at the same time
GROWTH = 1.1  # memory after all sessions, to that after the first thousand
PAGE = 4096


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def chaos(folder: Path, seconds: float, seed: int) -> ChaosRun:
    """Run all phases, scaled to about so many seconds."""
    begun, share = time.monotonic(), seconds / FULL
    faults, kills, shapes = Tally(), KillTally(), ShapeTally()
    memory: dict[str, tuple[int, int]] = {}
    before = _own_memory()
    shape_bytes = max(SHAPE_LEAST, int(SHAPE * min(1.0, share)))
    await _play_pairs(folder, seed, share, faults)
    for backend in DIALECTS:
        (folder / f"worst-{backend}").mkdir()
        async with faulty_pair("smooth", backend, folder / f"worst-{backend}") as pair:
            await play_backend_shapes(pair, backend, shape_bytes, shapes)
    trim()  # as a gateway does once a minute: here it is the memory of the largest shapes
    memory["gateways and backends of the broken connections (one process)"] = before, _own_memory()
    say(f"{faults.rounds.total()} turns with broken connections: {time.monotonic() - begun:.0f} s")
    (folder / "kills").mkdir()
    async with process_harness(folder / "kills", kills) as (made, innocent):
        innocent.tell("quiet")
        await asyncio.sleep(1 + 4 * share)
        innocent.tell("kills")
        dice = Random(f"{seed} kills")
        for number in range(max(len(KILLS), round(KILLED * share))):
            await made.kill(KILLS[number % len(KILLS)], dice)
        say(f"{kills.kills.total()} kills: {time.monotonic() - begun:.0f} s")
        start = made.gateway.resident()
        await play_shapes(made, innocent, shape_bytes, shapes)
        memory["gateway, before and after the worst shapes"] = start, made.gateway.resident()
        say(f"{len(shapes.played)} shapes: {time.monotonic() - begun:.0f} s")
        innocent.close_input()
        pings = json.loads(await innocent.next_line())
    return ChaosRun(
        seed=seed,
        seconds=time.monotonic() - begun,
        asked_seconds=seconds,
        faults=faults,
        kills=kills,
        shapes=shapes,
        shape_bytes=shape_bytes,
        pings=pings,
        memory=memory,
    )


async def _play_pairs(folder: Path, seed: int, share: float, tally: Tally) -> None:
    abreast = asyncio.Semaphore(ABREAST)

    async def play(client: str, backend: str) -> None:
        dice = Random(f"{seed} {client} {backend}")
        rounds = choose_rounds(dice, max(12, round(ROUNDS * share)))
        rounds += choose_rounds(dice, max(2, round(CUTS * share / len(PAIRS))), [FaultKind.CUT])
        place = folder / f"{client}-{backend}"
        place.mkdir()
        async with abreast:
            await play_rounds(client, backend, place, rounds, tally)

    async with asyncio.TaskGroup() as group:
        for pair in PAIRS:
            group.create_task(play(*pair), name=" to ".join(pair))


def _own_memory() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * PAGE


def run_chaos(arguments: argparse.Namespace) -> bool:
    say(f"seed {arguments.seed}")
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        result = asyncio.run(chaos(Path(folder), arguments.seconds, arguments.seed))
    report = chaos_report(result)
    say(report)
    details = [*result.faults.details, *result.kills.details, *result.shapes.not_recovered]
    for line in details:
        say(line)
    if arguments.write:
        RELIABILITY.write_text(replace_section(RELIABILITY.read_text("utf-8"), "chaos", report), "utf-8")
    return result.faults.clean and result.kills.clean and not result.shapes.not_recovered


def run_soak(arguments: argparse.Namespace) -> bool:
    say(f"seed {arguments.seed}")
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        result = asyncio.run(soak(Path(folder), 60 * arguments.minutes, arguments.seed, arguments.clients))
    report = soak_report(result, arguments.seed, arguments.clients)
    say(report)
    if arguments.write:
        RELIABILITY.write_text(replace_section(RELIABILITY.read_text("utf-8"), "soak", report), "utf-8")
    return not (result.turns["lost"] or result.turns["ended twice"])


def run_sessions(arguments: argparse.Namespace) -> bool:
    with tempfile.TemporaryDirectory(prefix="sessions-") as folder:
        samples = asyncio.run(leave_sessions(Path(folder), arguments.sessions, say))
    report = sessions_report(samples)
    say(report)
    if arguments.write:
        RELIABILITY.write_text(replace_section(RELIABILITY.read_text("utf-8"), "sessions", report), "utf-8")
    return memory_growth(samples) <= GROWTH


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("chaos")
    command.add_argument("--seconds", type=float, default=FULL)
    command.add_argument("--no-write", dest="write", action="store_false")
    command.set_defaults(run=run_chaos)
    other = commands.add_parser("soak")
    other.add_argument("--minutes", type=float, default=10.0)
    other.add_argument("--clients", type=int, default=CLIENTS)
    other.add_argument("--write", action="store_true")
    other.set_defaults(run=run_soak)
    left = commands.add_parser("sessions")
    left.add_argument("--sessions", type=int, default=SESSIONS)
    left.add_argument("--write", action="store_true")
    left.set_defaults(run=run_sessions)
    for each in (command, other):
        each.add_argument("--seed", type=int, default=SystemRandom().randrange(1 << 32))
    arguments = parser.parse_args()
    logs.configure("error", as_json=False)
    sys.exit(0 if arguments.run(arguments) else 1)


if __name__ == "__main__":
    main()
