"""`make bench`: every goal of docs/performance.md, as ratios in interleaved runs.

    python -m tests.bench [--quick] [--only PART...] [--write docs/performance.md]

Exits 1 when a goal is missed. Ratios are what counts: absolute figures belong to the machine.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench import codec, live, recording, replay, report, start, stdio, text, zeromq
from tests.bench.text import Report

PARTS: dict[str, Callable[[int, bool], Report]] = {
    "start": lambda rounds, _quick: report.start_report(start.measure(rounds)),
    "codec": lambda rounds, _quick: report.codec_report(codec.measure(rounds)),
    "steady": live.steady,
    "bulk": live.bulk,
    "scale": live.scale,
    "options": live.options,
    "pairs": live.pairs,
    "stdio": lambda rounds, _quick: report.stdio_report(stdio.measure(rounds)),
    "zeromq": lambda rounds, _quick: report.zeromq_report(zeromq.measure(rounds)),
    "replay": lambda rounds, quick: report.replay_report(replay.measure(rounds, quick)),
    "recording": lambda rounds, quick: report.recording_report(recording.measure(rounds, quick)),
}
"""Name of a measurement -> the function that runs it, given the number of rounds and whether it is a quick look."""

FEWER = {"pairs": 3}  # sixteen pairs, each lone and in bulk, through two programs: a round takes three minutes
ROUNDS, QUICK_ROUNDS = 5, 1
QUOTED_ROUNDS = 5  # fewer are not worth quoting (docs/performance.md: medians of at least five)
BEGIN, END = "<!-- bench {part} -->", "<!-- /bench {part} -->"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a short round: a first look, not for quoting")
    parser.add_argument("--rounds", type=int, help=f"how many rounds (default {ROUNDS})")
    parser.add_argument("--only", choices=tuple(PARTS), nargs="+", help="these parts alone")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put each part where the page has its marks")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    rounds = max(1, given.rounds or (QUICK_ROUNDS if given.quick else ROUNDS))
    if given.write and (given.quick or rounds < QUOTED_ROUNDS):
        print(f"error: --write wants at least {QUOTED_ROUNDS} whole rounds", file=sys.stderr)
        return 2
    if given.write and not has_markers(given.write):
        print(f"error: {given.write} has no {BEGIN.format(part='steady')} ...", file=sys.stderr)
        return 2
    reports: dict[str, Report] = {}
    for name, measured in PARTS.items():
        if name in (given.only or PARTS):
            with affinity_kept():
                reports[name] = measured(rounds_of(name, rounds), given.quick)
            if given.write:  # at once, so that a part that fails takes no other with it
                write(given.write, name, reports[name], text.machine(rounds_of(name, rounds)))
    figures = [figure for part in reports.values() for figure in part.figures]
    for name, part in reports.items():
        print(f"\n{name}\n\n{text.table(part.rows)}")
    print(f"\n{text.table(text.goals(figures))}\n\n{text.machine(rounds)}")
    return int(any(figure.verdict == "MISSED" for figure in figures))


def rounds_of(part: str, rounds: int) -> int:
    """Return how many rounds of a part are measured."""
    return min(rounds, FEWER.get(part, rounds))


@contextmanager
def affinity_kept() -> Iterator[None]:
    """A measurement pins this process; the next one chooses anew."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    try:
        yield
    finally:
        if allowed is not None:
            os.sched_setaffinity(0, allowed)


def has_markers(path: Path) -> bool:
    """Return whether the page has a place for every part that has goals."""
    page = path.read_text() if path.exists() else ""
    marks = [(page.find(BEGIN.format(part=part)), page.find(END.format(part=part))) for part in PARTS]
    return all(-1 < begin < end for begin, end in marks)


def write(path: Path, part: str, measured: Report, said: str) -> None:
    """Replace the figures and the rows of a part."""
    begin, end = BEGIN.format(part=part), END.format(part=part)
    tables = [text.goals(measured.figures)] if measured.figures else []
    tables += text.split(measured.rows)
    before, rest = path.read_text().split(begin, 1)
    after = rest.split(end, 1)[1]
    shown = "\n\n".join(map(text.as_markdown, tables))
    path.write_text(f"{before}{begin}\n{shown}\n\n{said}.\n{end}{after}")


if __name__ == "__main__":
    sys.exit(main())
