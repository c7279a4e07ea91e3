"""The fidelity matrix for people: a table on a terminal or a pipe, and docs/fidelity.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text

from dragoman.mappings.fidelity import Cell

__all__ = ["markdown", "pairs", "show"]

PIPE_WIDTH = 1000  # characters; where no terminal is, nothing is folded

MARKS = {"exact": ("=", "green"), "lossy": ("~", "yellow"), "emulated": ("*", "cyan"), "none": ("-", "dim")}
"""Grade -> its mark in the table, and the mark's colour."""

MEANINGS = {
    "exact": "it comes back equal",
    "lossy": "it arrives without the fields that are named",
    "emulated": "its meaning arrives by other means",
    "none": "the other dialect has no word for it: each one is counted",
}

DIRECTIONS = {"event": "Events, from backend to client", "command": "Commands, from client to backend"}

Pair = tuple[str, str]
"""Source and target: the dialect that says something, and the one in which it is said again."""


def show(cells: Sequence[Cell], console: Console) -> None:
    """A table of each direction, then what its marks mean. Not on a terminal: the same text, plain and never folded."""
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
    """As if nothing had to be folded."""
    return console.options.update(width=PIPE_WIDTH)


def _narrow(direction: str, cells: Sequence[Cell]) -> Iterator[Table | str]:
    """The same in a table for each dialect that says something."""
    for source in dict.fromkeys(cell.source for cell in cells):
        yield _table(direction, [cell for cell in cells if cell.source == source], source)
        yield ""


def _legend() -> Text:
    lines = Text()
    for grade, (mark, colour) in MARKS.items():
        lines.append(f"{mark} {grade}", style=colour).append(f": {MEANINGS[grade]}\n")
    return lines.append("  (blank): the dialect before the arrow never says it")


def _table(direction: str, cells: Sequence[Cell], source: str = "") -> Table:
    """The cells of one direction: a row a kind, a column a pair; of a single pair the details too.

    With `source` all pairs begin with it, and columns are named by what they go to.
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
    """The pairs, and each kind with its cells, both in the order in which they come."""
    rows: dict[str, dict[Pair, Cell]] = {}
    for cell in cells:
        if cell.direction == direction:
            rows.setdefault(cell.canonical, {})[cell.source, cell.target] = cell
    pairs = dict.fromkeys((cell.source, cell.target) for cell in cells)
    return list(pairs), list(rows.items())


# -- docs/fidelity.md -------------------------------------------------------------------------------

INTRO = """\
# What arrives

A client of one dialect talks to a backend of another through words that both are translated to: *events*, which a
backend says to its clients, and *commands*, which clients say to a backend. For every kind of them these tables say
what becomes of it on its way from one dialect to another:

{meanings}

An empty cell means that the first dialect never says it, so there is nothing to translate.

Some things to know when reading them:

- A kind is graded by the worst that can happen to it. `SubmitInput` from smooth to pod is lossy because of images and
  model names; a line of plain text arrives as it is.
- Between two links of one dialect, what only this dialect knows is kept: what was said comes back. Between two
  different dialects such extras stay behind (a pod's log entries, the citations of a smooth answer); the tables name
  fields of the common words only.
- Request ids and the session that is meant are an address, not content: where a dialect has no word for them, the
  connection says them. Times are written to the precision of each dialect.
- What a session adds by itself, such as the one clear end of every turn, counts as said by every backend.
- The running gateway answers some commands itself whatever the backend: `Ping`, `OpenSession`, `ResumeSession`,
  `GetSession`, `ListSessions`, `GetHistory` and `ShutdownBackend`. Where both dialects have a word for one of them, its
  cell says what `dragoman translate` makes of it.

`make docs` makes this file from what the translation rules declare, and the tests measure every declaration: samples of
each kind go to the wire and come back. `dragoman matrix` shows the same in a terminal, with `--json` for scripts.
"""


def markdown(cells: Sequence[Cell]) -> str:
    """docs/fidelity.md: what the grades mean, an overview of each direction, then what is not exact of each pair."""
    meanings = "\n".join(f"- **{grade}**: {meaning}." for grade, meaning in MEANINGS.items())
    parts = [INTRO.format(meanings=meanings)]
    for direction, title in DIRECTIONS.items():
        pairs, rows = _rows(direction, cells)
        parts.append(f"## {title}\n")
        parts.append(_grid(["", *(f"{a} to {b}" for a, b in pairs)], _overview(pairs, rows)))
    parts.append("## What does not arrive as it is\n")
    for pair in dict.fromkeys((cell.source, cell.target) for cell in cells):
        parts.append(f"### {pair[0]} to {pair[1]}\n")
        inexact = [c for c in cells if (c.source, c.target) == pair and c.kind != "exact"]
        parts.append(_grid(["", "", "how"], ([f"`{c.canonical}`", c.kind, c.detail] for c in inexact)))
    return "\n".join(parts).rstrip("\n") + "\n"


FEATURES = {
    "text": ("event", "TextDelta"),
    "reasoning": ("event", "ReasoningDelta"),
    "tools": ("event", "ToolCallFinished"),
    "questions": ("event", "ApprovalRequested"),
    "cancel": ("command", "CancelTurn"),
    "pause": ("command", "PauseTurn"),
}
"""What a user asks of a pair -> the direction and the kind whose cell says it."""

ANSWERS = {"questions": "AnswerApproval"}
"""What is asked in vain where the backend takes no answer."""


def pairs(cells: Sequence[Cell]) -> str:
    """The README's table: a row a client, a column a backend, and of FEATURES what arrives between them."""
    known = {(c.direction, c.canonical, c.source, c.target): c.kind for c in cells}
    names = list(dict.fromkeys(cell.source for cell in cells))
    rows = (
        [f"`{client}` client", *(", ".join(_features(known, client, backend)) for backend in names)] for client in names
    )
    return _grid(["", *(f"`{name}` backend" for name in names)], rows)


def _features(known: dict[tuple[str, str, str, str], str], client: str, backend: str) -> Iterator[str]:
    for feature, (direction, canonical) in FEATURES.items():
        way = (backend, client) if direction == "event" else (client, backend)
        grade = known.get((direction, canonical, *way), "none")
        answer = ANSWERS.get(feature)
        taken = answer is None or known.get(("command", answer, backend, backend), "none") != "none"
        if grade != "none" and taken:
            yield f"*{feature}*" if grade == "emulated" else feature


def _overview(pairs: list[Pair], rows: list[tuple[str, dict[Pair, Cell]]]) -> Iterator[list[str]]:
    for kind, row in rows:
        yield [f"`{kind}`", *(row[pair].kind if pair in row else "" for pair in pairs)]


def _grid(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
