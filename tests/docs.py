"""Write the generated parts of the documents: docs/fidelity.md, the README's table of pairs, the states of a turn, and
what redaction finds.

    python -m tests.docs

`make docs` writes them; test_matrix.py, test_turn_states.py and test_measured.py compare them with the documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from dragoman.gateway import registry
from dragoman.gateway.matrix import grid, markdown
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
