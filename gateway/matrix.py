"""Show the fidelity matrix: as a table on a terminal or a pipe, and as docs/fidelity.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text

from dragoman.mappings.fidelity import Cell

PIPE_WIDTH = 1000  # characters: wide enough that no line is folded without a terminal

MARKS = {"exact": ("=", "green"), "lossy": ("~", "yellow"), "emulated": ("*", "cyan"), "none": ("-", "dim")}
"""Grade -> its mark in the table, and the mark's colour."""

MEANINGS = {
    "exact": "all fields arrive unchanged",
    "lossy": "the named fields are lost",
    "emulated": "the meaning arrives in another form",
    "none": "the other dialect cannot express it; each one is counted as a loss",
}

DIRECTIONS = {"event": "Events, from backend to client", "command": "Commands, from client to backend"}

Pair = tuple[str, str]
"""Source and target dialect of a translation."""


def show(cells: Sequence[Cell], console: Console) -> None:
    """Print a table for each direction and a legend. Without a terminal, print the same as plain text that is never
    folded.
    """
    shown = [part for name in DIRECTIONS for part in (DIRECTIONS[name], _table(name, cells), "")]
    if console.is_terminal:
        if any(console.measure(p, options=_wide(console)).maximum > console.width for p in shown if type(p) is Table):
            shown = [part for name in DIRECTIONS for part in (DIRECTIONS[name], *_narrow(name, cells))]
        console.print(*shown, _legend(), sep="\n", highlight=False)
        return
    plain = Console(width=PIPE_WIDTH, color_system=None)
    with plain.capture() as captured:
        plain.print(*shown, _legend(), sep="\n", highlight=False)
    for line in captured.get().splitlines():
        console.print(line.rstrip(), soft_wrap=True, markup=False, highlight=False)


def _wide(console: Console) -> ConsoleOptions:
    """Return console options with which no line is folded."""
    return console.options.update(width=PIPE_WIDTH)


def _narrow(direction: str, cells: Sequence[Cell]) -> Iterator[Table | str]:
    """Yield the table of one direction as smaller tables, one for each source dialect."""
    for source in dict.fromkeys(cell.source for cell in cells):
        yield _table(direction, [cell for cell in cells if cell.source == source], source)
        yield ""


def _legend() -> Text:
    lines = Text()
    for grade, (mark, colour) in MARKS.items():
        lines.append(f"{mark} {grade}", style=colour).append(f": {MEANINGS[grade]}\n")
    return lines.append("  (blank): the dialect before the arrow never sends it")


def _table(direction: str, cells: Sequence[Cell], source: str = "") -> Table:
    """Return the cells of one direction as a table: a row for each kind, a column for each pair.

    A single pair also has its details. With `source`, all pairs begin with it and columns are named by the target.
    """
    pairs, rows = _rows(direction, cells)
    alone = len(pairs) == 1
    table = Table(
        f"{direction} of {source}" if source else direction,
        box=None,
        pad_edge=False,
        header_style="bold",
        padding=(0, 2, 0, 0),
    )
    for begin, target in pairs:
        table.add_column(
            f"->{target}" if source else f"{begin}->{target}", justify="left" if alone else "center", no_wrap=True
        )
    if alone:
        table.add_column("", overflow="fold")
    for kind, row in rows:
        marks = [_marked(row.get(pair), alone=alone) for pair in pairs]
        table.add_row(kind, *marks, *([Text(row[pairs[0]].detail)] if alone else []))
    return table


def _marked(cell: Cell | None, *, alone: bool) -> Text:
    if cell is None:
        return Text("")
    mark, colour = MARKS[cell.kind]
    return Text(f"{mark} {cell.kind}" if alone else mark, style=colour)


def _rows(direction: str, cells: Iterable[Cell]) -> tuple[list[Pair], list[tuple[str, dict[Pair, Cell]]]]:
    """Return the pairs, and each kind with its cells, both in the order of `cells`."""
    rows: dict[str, dict[Pair, Cell]] = {}
    for cell in cells:
        if cell.direction == direction:
            rows.setdefault(cell.canonical, {})[cell.source, cell.target] = cell
    pairs = dict.fromkeys((cell.source, cell.target) for cell in cells)
    return list(pairs), list(rows.items())


# -- docs/fidelity.md -------------------------------------------------------------------------------

INTRO = """\
# Fidelity

The gateway translates every message into one common model: *events*, which a backend sends to its clients, and
*commands*, which clients send to a backend. For each kind of event and command, these tables show how well it
survives the translation from one dialect to another:

{meanings}

An empty cell means that the source dialect never sends this kind.

How to read the tables:

- The grade is the worst case. `SubmitInput` from smooth to pod is lossy because of images and model names; plain text
  arrives unchanged.
- Between two peers of the same dialect, fields that only this dialect has are kept. Between different dialects they
  are lost (a pod's log entries, the citations of a smooth answer). The tables name only fields of the common model;
  the loss ledger counts such a field too, as `ext.NAME`.
- Request ids and session ids are addresses, not content. If a dialect has no field for them, the connection implies
  them. Times have the precision of each dialect.
- Events that a session adds by itself, such as the single end of every turn, count as sent by every backend.
- `HistorySnapshot` stands for a history that the client requests. One that the backend sends by itself is shown to pod
  clients only. codewhale has the events of a turn in its result, and the error of a failed turn has none. The ledger
  counts both as lost.
- The gateway answers some commands itself, whatever the backend: `Ping`, `OpenSession`, `ResumeSession`,
  `GetSession`, `ListSessions`, `GetHistory` and `ShutdownBackend`. If both dialects can express such a command, its
  cell shows the translation by `dragoman translate`.

`make docs` generates this file from the translation rules. The tests measure every declared grade: samples of each kind
are encoded and decoded again. `dragoman matrix` shows the same tables in a terminal, with `--json` for scripts.
"""


def markdown(cells: Sequence[Cell]) -> str:
    """Return docs/fidelity.md: the meaning of the grades, an overview of each direction, and the inexact kinds of each
    pair.
    """
    meanings = "\n".join(f"- **{grade}**: {meaning}." for grade, meaning in MEANINGS.items())
    parts = [INTRO.format(meanings=meanings)]
    for direction, title in DIRECTIONS.items():
        pairs, rows = _rows(direction, cells)
        parts.append(f"## {title}\n")
        parts.append(grid(["", *(f"{a} to {b}" for a, b in pairs)], _overview(pairs, rows)))
    parts.append("## Inexact translations\n")
    for pair in dict.fromkeys((cell.source, cell.target) for cell in cells):
        parts.append(f"### {pair[0]} to {pair[1]}\n")
        inexact = [c for c in cells if (c.source, c.target) == pair and c.kind != "exact"]
        parts.append(grid(["", "", "how"], ([f"`{c.canonical}`", c.kind, c.detail] for c in inexact)))
    return "\n".join(parts).rstrip("\n") + "\n"


def _overview(pairs: list[Pair], rows: list[tuple[str, dict[Pair, Cell]]]) -> Iterator[list[str]]:
    for kind, row in rows:
        yield [f"`{kind}`", *(row[pair].kind if pair in row else "" for pair in pairs)]


def grid(head: list[str], rows: Iterable[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
