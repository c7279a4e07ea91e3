"""`make bench`: every goal of docs/performance.md that can be measured so far, as ratios in one interleaved run.

    python -m tests.bench [--quick] [--json] [--write docs/performance.md]

Exits 1 when a goal is missed. Ratios are what counts: absolute figures belong to the machine.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tests.bench import bulk, codec, pairs, recording, replay, report, sessions, start, stdio, steady, zeromq
from tests.bench.report import Report

PARTS: dict[str, Callable[[int, bool], Report]] = {
    "start": lambda rounds, _quick: report.start_report(start.measure(rounds)),
    "codec": lambda rounds, _quick: report.codec_report(codec.measure(rounds)),
    "bulk": lambda rounds, quick: report.bulk_report(bulk.measure(rounds, quick)),
    "stdio": lambda rounds, _quick: report.stdio_report(stdio.measure(rounds)),
    "steady": lambda rounds, quick: report.steady_report(steady.measure(rounds, quick)),
    "zeromq": lambda rounds, _quick: report.zeromq_report(zeromq.measure(rounds)),
    "pairs": lambda rounds, quick: report.pairs_report(pairs.measure(rounds, quick)),
    "replay": lambda rounds, quick: report.replay_report(replay.measure(rounds, quick)),
    "recording": lambda rounds, quick: report.recording_report(recording.measure(rounds, quick)),
    "sessions": lambda _rounds, quick: sessions.sessions_report(sessions.measure(quick)),
}
"""What is measured: so many rounds of it, short ones for a first look."""

ROUNDS, QUICK_ROUNDS = 7, 3
QUOTED_ROUNDS = 5  # fewer are not worth quoting (docs/performance.md: medians of at least five)
BEGIN, END = "<!-- bench -->", "<!-- /bench -->"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK_ROUNDS} short rounds: a first look, not for quoting"
    )
    parser.add_argument("--rounds", type=int, help=f"how many rounds (default {ROUNDS})")
    parser.add_argument("--only", choices=tuple(PARTS), help="one part alone")
    parser.add_argument("--json", action="store_true", help="the figures as JSON, for scripts")
    parser.add_argument("--write", type=Path, metavar="FILE", help=f"put the figures between {BEGIN} and {END}")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    rounds = max(1, given.rounds or (QUICK_ROUNDS if given.quick else ROUNDS))
    if given.write and (given.quick or given.only or rounds < QUOTED_ROUNDS):
        print(f"error: --write wants the whole run, at least {QUOTED_ROUNDS} rounds of it", file=sys.stderr)
        return 2
    if given.write and not has_markers(given.write):
        print(f"error: {given.write} has no {BEGIN} ... {END}", file=sys.stderr)
        return 2
    reports: dict[str, Report] = {}
    for name, measured in PARTS.items():
        if given.only in (None, name):
            with affinity_kept():
                reports[name] = measured(rounds, given.quick)
    figures = [figure for part in reports.values() for figure in part.figures]
    said = report.machine(rounds)
    if given.json:
        print(as_json(reports, said))
    else:
        for name, part in reports.items():
            print(f"\n{name}\n\n{report.table(part.rows)}")
        print(f"\n{report.table(report.goals(figures))}\n\n{said}")
    if given.write:
        write(given.write, report.as_markdown(figures, said))
    return int(any(figure.verdict == "MISSED" for figure in figures))


@contextmanager
def affinity_kept() -> Iterator[None]:
    """A measurement pins this process; the next one chooses anew."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    try:
        yield
    finally:
        if allowed is not None:
            os.sched_setaffinity(0, allowed)


def as_json(reports: dict[str, Report], said: str) -> str:
    figures = [
        {
            "id": f.id,
            "title": f.title,
            "median": f.value,
            "rounds": f.rounds,
            "goal": f.goal or None,
            "stretch": f.stretch or None,
            "at_most": f.at_most,
            "verdict": f.verdict,
        }
        for part in reports.values()
        for f in part.figures
    ]
    rows = {name: part.rows for name, part in reports.items()}
    return msgspec.json.format(msgspec.json.encode({"figures": figures, "rows": rows, "machine": said})).decode()


def has_markers(path: Path) -> bool:
    text = path.read_text() if path.exists() else ""
    return -1 < text.find(BEGIN) < text.find(END)


def write(path: Path, figures: str) -> None:
    before, rest = path.read_text().split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    path.write_text(f"{before}{BEGIN}\n{figures}\n{END}{after}")


if __name__ == "__main__":
    sys.exit(main())
