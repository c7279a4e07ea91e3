"""Tables of a run for the terminal and for docs/reliability.md, whose numbers all come from here."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from tests.chaos.faults import FAULTS, SIDES
from tests.chaos.kills import KILLS, KillTally
from tests.chaos.pair import Tally
from tests.chaos.sessions import SESSIONS, SessionsSample
from tests.chaos.shapes import SHAPES, ShapeTally
from tests.chaos.soak import CLIENTS, QUANTITIES, SoakResult

RELIABILITY = Path(__file__).parents[2] / "docs" / "reliability.md"
MIB = 1 << 20
UNITS = {"memory": "MiB", "descriptors": "", "tasks": "", "timers": ""}


class ChaosRun(Struct, kw_only=True):
    """The results of a run of `make chaos`. Memory is in bytes, ping figures are by phase."""

    seed: int
    seconds: float
    asked_seconds: float
    faults: Tally
    kills: KillTally
    shapes: ShapeTally
    shape_bytes: int
    pings: dict[str, dict[str, float]]
    memory: dict[str, tuple[int, int]]


def fault_titles() -> list[str]:
    """Return the rows of the table of faults."""
    return [f"{kind}, {side} side" for kind in FAULTS for side in SIDES]


def chaos_report(run: ChaosRun) -> str:
    """Return the tables of a run of `make chaos` as Markdown."""
    faults, kills = run.faults, run.kills
    parts = [
        _header(f"`make chaos`, seed {run.seed}, {run.seconds:.0f} s (the full run: 300 s)", run.asked_seconds, 300),
        "### Broken connections",
        _counts(
            fault_titles(),
            {
                "turns": faults.rounds,
                "fault struck": faults.struck,
                "end told": faults.ended,
                "client disconnected": faults.disconnected,
                "lost": faults.lost,
                "ended twice": faults.ended_twice,
                "did not recover": faults.not_recovered,
            },
        ),
        "### Killed processes",
        _counts(
            [*KILLS, "in recordings", "end"],
            {
                "kills": kills.kills,
                "end told": kills.ended,
                "client disconnected": kills.disconnected,
                "lost": kills.lost,
                "ended twice": kills.ended_twice,
                "did not recover": kills.not_recovered,
                "processes left": kills.left_behind,
            },
        ),
        "### An innocent client meanwhile",
        _pings(run.pings),
        f"### The worst shapes ({run.shape_bytes / MIB:g} MiB of each)",
        _shapes(run),
        "### Memory",
        _table(
            ["process", "before, MiB", "after, MiB"],
            [[name, f"{a / MIB:.1f}", f"{b / MIB:.1f}"] for name, (a, b) in run.memory.items()],
        ),
    ]
    return "\n\n".join(parts) + "\n"


def soak_report(result: SoakResult, seed: int, clients: int = CLIENTS) -> str:
    """Return the slopes of a run of `make soak` as Markdown."""
    title = f"`make soak`, seed {seed}, {clients} clients, {result.seconds / 60:.1f} minutes (the full run: 10)"
    rows = [
        [
            f"{name}, {UNITS[name]}" if UNITS[name] else name,
            f"{slope.per_minute:+.3f}",
            f"{slope.error:.3f}",
            f"{slope.first:.1f}",
            f"{slope.last:.1f}",
        ]
        for name, slope in ((name, result.slopes[name]) for name in QUANTITIES)
    ]
    turns = ", ".join(f"{count} {what}" for what, count in sorted(result.turns.items()))
    table = _table(["quantity", "slope a minute", "standard error", "first sample", "last sample"], rows)
    return "\n\n".join([_header(title, result.seconds, 600), f"Turns: {turns}.", table]) + "\n"


def sessions_report(samples: list[SessionsSample]) -> str:
    """Return the table of a run of `make sessions` as Markdown."""
    title = f"`make sessions`, {samples[-1].opened:,} sessions (the full run: {SESSIONS:,})"
    rows = [[f"{s.opened:,}", f"{s.memory / MIB:.1f}", str(s.descriptors), f"{1e3 * s.cpu:.2f}"] for s in samples]
    table = _table(["sessions opened", "memory, MiB", "descriptors", "CPU of each further one, ms"], rows)
    return f"{_header(title, samples[-1].opened, SESSIONS)}\n\n{table}\n"


def replace_section(text: str, name: str, content: str) -> str:
    """Return the document with this content between the marks of a section."""
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, rest = text.split(begin)
    return f"{before}{begin}{content}{end}{rest.split(end)[1]}"


def _header(title: str, size: float, full: float) -> str:
    when = datetime.now(UTC).strftime("%Y-%m-%d")
    shorter = "" if size >= full else " This was a shorter run."
    cores = os.cpu_count()
    return f"{title}. {when}, Python {platform.python_version()}, {platform.system()}, {cores} cores.{shorter}"


def _counts(rows: Iterable[str], columns: dict[str, Counter[str]]) -> str:
    lines = [[row, *(str(column[row]) for column in columns.values())] for row in rows]
    total = ["all", *(str(column.total()) for column in columns.values())]
    return _table(["", *columns], [*lines, total])


def _pings(pings: dict[str, dict[str, float]]) -> str:
    rows = [
        [phase, f"{figures['pings']:.0f}", f"{figures['p99_ms']:.1f}", f"{figures['worst_ms']:.0f}"]
        for phase, figures in pings.items()
        if "," not in phase
    ]
    return _table(["phase", "pings", "p99, ms", "worst, ms"], rows)


def _shapes(run: ChaosRun) -> str:
    dialects = list(dict.fromkeys(dialect for _, dialect in run.shapes.played))
    rows = []
    for name in SHAPES:
        cells = [run.pings.get(f"{name}, {dialect}") for dialect in dialects]
        shown = [f"{cell['worst_ms']:.0f}" if cell else "-" for cell in cells]
        broken = [dialect for dialect in dialects if f"{name}, {dialect}" in run.shapes.not_recovered]
        rows.append([name, *shown, ", ".join(broken) or "none"])
    table = _table(["shape: worst ping, ms", *dialects, "did not recover"], rows)
    backends = [line for line in run.shapes.not_recovered if "backend" in line]
    sent = f"Backends of all dialects sent the same shapes, {run.shapes.played_by_backends} in all"
    return f"{table}\n\n{sent}; did not recover: {', '.join(backends) or 'none'}."


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
