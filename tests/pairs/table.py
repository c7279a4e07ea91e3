"""What a client of each dialect must see of a backend of each: the one table, for people and for the tests.

A column is a pair. The backend is the demo backend in its dialect, which plays the same scripts in all; what is `-`
cannot be seen. test_pairs.py holds the gateway to it, and the fidelity matrix to both.
"""

from __future__ import annotations

__all__ = ["DIALECTS", "PAIRS", "must_see"]

DIALECTS = ("smooth", "pod", "pando")
PAIRS = [(client, backend) for client in DIALECTS for backend in DIALECTS]

TABLE = """
client              smooth    smooth    smooth    | pod       pod       pod       | pando     pando     pando
backend             smooth    pod       pando     | smooth    pod       pando     | smooth    pod       pando

text                whole     whole     whole     | whole     whole     whole     | whole     whole     whole
reasoning           whole     whole     -         | whole     whole     -         | -         -         -
calls               whole     whole     whole     | whole     whole     whole     | whole     whole     whole
results             whole     whole     whole     | whole     whole     whole     | whole     whole     whole
an answer ends      completed completed completed | completed completed completed | completed completed completed
a failure ends      failed    failed    completed | failed    failed    completed | failed    failed    failed
a cancel ends       cancelled cancelled cancelled | cancelled cancelled cancelled | completed completed completed
a loss ends         failed    failed    failed    | failed    failed    failed    | failed    failed    failed
a new backend       used      used      refused   | used      used      used      | used      used      refused
a question is       form      words     words     | words     words     words     | words     words     words
a question ends     asked     cancelled completed | paused    paused    completed | completed completed completed
"""


def _read() -> dict[str, dict[tuple[str, str], str]]:
    rows = {}
    for line in TABLE.strip().splitlines():
        if line:
            name, cells = line[:20].strip(), line[20:].replace("|", "").split()
            rows[name] = dict(zip(PAIRS, cells, strict=True))
    assert all(rows["client"][pair] == pair[0] and rows["backend"][pair] == pair[1] for pair in PAIRS)
    return rows


ROWS = _read()


def must_see(what: str, client: str, backend: str) -> str:
    """The cell of one pair."""
    return ROWS[what][client, backend]
