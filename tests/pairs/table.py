"""A table of what a client of each dialect must see of a backend of each dialect.

Each row is a pair of dialects, with one cell for each of COLUMNS; `-` means that the client cannot see it. The backend
is the demo backend, which plays the same scripts in all dialects. test_pairs.py compares the gateway and the fidelity
matrix with this table.
"""

from __future__ import annotations

from dragoman.gateway import registry

DIALECTS = registry.OURS
PAIRS = [(client, backend) for client in DIALECTS for backend in DIALECTS]
LISTEN = {dialect: registry.free_form(dialect) for dialect in DIALECTS}
"""Dialect -> an endpoint that chooses its port, or has its socket in a folder."""

COLUMNS = (
    "text",
    "reasoning",
    "calls",
    "results",
    "usage",
    "an answer ends",
    "a failure ends",
    "a cancel ends",
    "a loss ends",
    "a new backend",
    "a question is",
    "a question ends",
)

TABLE = """
client    backend   text  reasoning calls results usage answer    failure   cancel    loss   new     question then

smooth    smooth    whole whole     whole whole   whole completed failed    cancelled failed used    form     asked
smooth    pod       whole whole     whole whole   whole completed failed    cancelled failed used    words    cancelled
smooth    pando     whole -         whole whole   whole completed failed    cancelled failed refused words    completed
smooth    codewhale whole whole     whole whole   -     completed failed    cancelled failed used    words    completed

pod       smooth    whole whole     whole whole   whole completed failed    cancelled failed used    words    paused
pod       pod       whole whole     whole whole   whole completed failed    cancelled failed used    words    paused
pod       pando     whole -         whole whole   whole completed failed    cancelled failed used    words    completed
pod       codewhale whole whole     whole whole   -     completed failed    cancelled failed used    words    completed

pando     smooth    whole -         whole whole   whole completed failed    completed failed used    words    completed
pando     pod       whole -         whole whole   whole completed failed    completed failed used    words    completed
pando     pando     whole -         whole whole   whole completed failed    completed failed refused words    completed
pando     codewhale whole -         whole whole   -     completed failed    completed failed used    words    completed

codewhale smooth    whole whole     whole whole   -     completed failed    cancelled failed used    words    completed
codewhale pod       whole whole     whole whole   -     completed failed    cancelled failed used    words    cancelled
codewhale pando     whole -         whole whole   -     completed failed    cancelled failed refused words    completed
codewhale codewhale whole whole     whole whole   -     completed failed    cancelled failed used    words    completed
"""


def _read() -> dict[tuple[str, str], dict[str, str]]:
    rows = {}
    for line in TABLE.strip().splitlines()[1:]:
        if line:
            client, backend, *cells = line.split()
            rows[client, backend] = dict(zip(COLUMNS, cells, strict=True))
    return rows


ROWS = _read()


def must_see(what: str, client: str, backend: str) -> str:
    """Return the cell of a pair in one of COLUMNS."""
    return ROWS[client, backend][what]
