"""Write the generated parts of the documents: docs/fidelity.md, the README's table of pairs, the states of a turn, and
what redaction finds.

    python -m tests.docs

`make docs` writes them; test_matrix.py, test_turn_states.py and test_measured.py compare them with the documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from dragoman.gateway import registry
from dragoman.gateway.session.turn_states import TURN
from dragoman.mappings import fidelity
from dragoman.mappings.fidelity import Cell
from tests.gateway.recording.redaction.measured import findings_table

ROOT = Path(__file__).parents[1]
FIDELITY, README = ROOT / "docs" / "fidelity.md", ROOT / "README.md"
BEGIN, END = "<!-- pairs -->\n", "<!-- /pairs -->"
DESIGN = ROOT / "docs/design.md"
STATES_BEGIN, STATES_END = "<!-- turn states -->\n", "<!-- /turn states -->"
RECORDING = ROOT / "docs/recording.md"
FOUND_BEGIN, FOUND_END = "<!-- found -->\n", "<!-- /found -->"
CELLS = list(fidelity.matrix(list(registry.dialects().values())))


# -- docs/fidelity.md -------------------------------------------------------------------------------

MEANINGS = {
    "exact": "all fields arrive unchanged",
    "lossy": "the named fields are lost",
    "emulated": "the meaning arrives in another form",
    "none": "the other dialect cannot express it; each one is counted as a loss",
}

DIRECTIONS = {"event": "Events, from backend to client", "command": "Commands, from client to backend"}

Pair = tuple[str, str]
"""Source and target dialect of a translation."""

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


def _rows(direction: str, cells: Iterable[Cell]) -> tuple[list[Pair], list[tuple[str, dict[Pair, Cell]]]]:
    """Return the pairs, and each kind with its cells, both in the order of `cells`."""
    rows: dict[str, dict[Pair, Cell]] = {}
    for cell in cells:
        if cell.direction == direction:
            rows.setdefault(cell.canonical, {})[cell.source, cell.target] = cell
    pairs = dict.fromkeys((cell.source, cell.target) for cell in cells)
    return list(pairs), list(rows.items())


# -- parts of other documents ------------------------------------------------------------------------

FEATURES = {
    "text": ("event", "TextDelta"),
    "reasoning": ("event", "ReasoningDelta"),
    "tools": ("event", "ToolCallFinished"),
    "questions": ("event", "ApprovalRequested"),
    "cancel": ("command", "CancelTurn"),
    "pause": ("command", "PauseTurn"),
}
"""Feature in the README's table -> the direction and kind whose cell decides about it."""

ANSWERS = {"questions": "AnswerApproval"}
"""Feature -> the command that the backend must accept for it."""


def pairs(cells: Sequence[Cell]) -> str:
    """Return the README's table: a row for each client, a column for each backend, with the features between them."""
    known = {(c.direction, c.canonical, c.source, c.target): c.kind for c in cells}
    names = list(dict.fromkeys(cell.source for cell in cells))
    rows = (
        [f"`{client}` client", *(", ".join(_features(known, client, backend)) for backend in names)] for client in names
    )
    return grid(["", *(f"`{name}` backend" for name in names)], rows)


def _features(known: dict[tuple[str, str, str, str], str], client: str, backend: str) -> Iterator[str]:
    for feature, (direction, canonical) in FEATURES.items():
        way = (backend, client) if direction == "event" else (client, backend)
        grade = known.get((direction, canonical, *way), "none")
        answer = ANSWERS.get(feature)
        taken = answer is None or known.get(("command", answer, backend, backend), "none") != "none"
        if grade != "none" and taken:
            yield f"*{feature}*" if grade == "emulated" else feature


def with_pairs(text: str) -> str:
    """Return the README with its generated table of pairs."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}{pairs(CELLS)}{END}{rest.split(END)[1]}"


def with_turn_states(text: str) -> str:
    """Return docs/design.md with its generated diagram of a turn's states."""
    before, rest = text.split(STATES_BEGIN)
    return f"{before}{STATES_BEGIN}{turn_states()}{STATES_END}{rest.split(STATES_END)[1]}"


def with_findings(text: str) -> str:
    """Return docs/recording.md with its measured table of what redaction finds."""
    before, rest = text.split(FOUND_BEGIN)
    return f"{before}{FOUND_BEGIN}{findings_table()}{FOUND_END}{rest.split(FOUND_END)[1]}"


def turn_states() -> str:
    """Return the states of a turn as a diagram."""
    names = {state: f"turn_{state.name.lower()}" for state in TURN}
    drawn = ["```mermaid", "stateDiagram-v2", *(f"    {name}: {state.value}" for state, name in names.items())]
    drawn.append(f"    [*] --> {next(iter(names.values()))}")
    for state, row in TURN.items():
        drawn += [f"    {names[state]} --> {names[to]}: {trigger.value}" for trigger, to in row.items()]
    return "\n".join([*drawn, "```", ""])


if __name__ == "__main__":
    FIDELITY.write_text(markdown(CELLS), "utf-8")
    DESIGN.write_text(with_turn_states(DESIGN.read_text("utf-8")), "utf-8")
    README.write_text(with_pairs(README.read_text("utf-8")), "utf-8")
    RECORDING.write_text(with_findings(RECORDING.read_text("utf-8")), "utf-8")
