"""What the documents show of the rules: docs/fidelity.md, and the README's table of pairs.

    python -m tests.docs

`make docs` writes both; test_matrix.py holds them to it.
"""

from __future__ import annotations

from pathlib import Path

from dragoman.gateway import registry
from dragoman.gateway.matrix import markdown, pairs
from dragoman.mappings import fidelity

__all__ = ["FIDELITY", "README", "with_pairs"]

ROOT = Path(__file__).parents[1]
FIDELITY, README = ROOT / "docs" / "fidelity.md", ROOT / "README.md"
BEGIN, END = "<!-- pairs -->\n", "<!-- /pairs -->"
CELLS = list(fidelity.matrix(list(registry.dialects().values())))


def with_pairs(text: str) -> str:
    """The README with the table as it must be."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}{pairs(CELLS)}{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    FIDELITY.write_text(markdown(CELLS), "utf-8")
    README.write_text(with_pairs(README.read_text("utf-8")), "utf-8")
