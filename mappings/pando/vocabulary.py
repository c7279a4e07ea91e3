"""Tables of pando: error texts to causes, roles, and codes of refused writes.

The sources are docs/dialects/pando.md, sections 4 to 7, and docs/translation.md, rule 3.11.
"""

from __future__ import annotations

from typing import get_args

from dragoman.mappings.canonical.values import Cause, Role
from dragoman.mappings.extras import Extras
from dragoman.mappings.jsonrpc import NO_METHOD, PARSE_ERROR

EXTRAS = Extras("pando")
keep, carried, given = EXTRAS.keep, EXTRAS.carried, EXTRAS.given

BAD_JSON = PARSE_ERROR
FAILED = -32000
"""The error code of every handler that fails; only the text has the reason."""

NO_METHOD_TEXT = "ipc: method not found"
NO_ROWS = "sql: no rows in result set"
"""The error text for an unknown id (docs/dialects/pando.md, section 6)."""

CODE_OF_CAUSE: dict[Cause, int] = dict.fromkeys(get_args(Cause), FAILED) | {"unsupported": NO_METHOD}

WORDS: tuple[tuple[str, Cause], ...] = (
    (NO_ROWS, "not_found"),
    # the primary knows the method and refuses, so the run continues (docs/translation.md, rule 4.5)
    ("interrupter not available", "denied"),
    ("not available on this instance", "unsupported"),
    ("METHOD_NOT_FOUND", "unsupported"),
    ("unknown write method", "unsupported"),
    ("INVALID_PARAMS", "invalid"),
    ("invalid params", "invalid"),
    ("unmarshal", "invalid"),
    ("is required", "invalid"),
    ("CONFLICT", "invalid"),
    ("TIMEOUT", "timeout"),
    ("UNREACHABLE", "upstream_lost"),
    ("currently processing another request", "busy"),
    ("already in progress", "busy"),  # of another dragoman
    ("not sent: ", "busy"),  # of another dragoman
    ("not found", "not_found"),  # a primary of another program: pando's own texts differ
)
"""Parts of an error's text -> the cause; the code is the same for all causes."""

BEGINNING = 4096  # characters of an error's text in which these are looked for: in 14 MiB that would take 125 ms


def cause_of(code: int, text: str) -> Cause:
    """Return the cause for an error's code and text."""
    if code == NO_METHOD:
        return "unsupported"
    if code == BAD_JSON:
        return "invalid"
    beginning = text[:BEGINNING]
    return next((cause for words, cause in WORDS if words in beginning), "internal")


WRITE_CODE: dict[Cause, str] = {
    "invalid": "INVALID_PARAMS",
    "unsupported": "METHOD_NOT_FOUND",
    "busy": "CONFLICT",
    "timeout": "TIMEOUT",
}
"""Causes -> the error code in the text of a refused `db.write`; INTERNAL for all other causes."""

CANONICAL_ROLE: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
"""Roles of pando -> canonical roles; any other role, such as `tool`, becomes system."""
