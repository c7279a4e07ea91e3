"""The dialect's words for causes, roles and writes (docs/dialects/pando.md, sections 4 to 7; docs/translation.md, rule
3.11).
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
"""The error code of every handler that fails; the text tells why."""

NO_METHOD_TEXT = "ipc: method not found"
NO_ROWS = "sql: no rows in result set"
"""The text about an unknown id (docs/dialects/pando.md, section 6)."""

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
    ("not found", "not_found"),  # a primary that is no pando: pando's own words differ
)
"""Parts of an error's text -> the cause; the code tells nothing."""


def cause_of(code: int, text: str) -> Cause:
    """Return the cause of an error."""
    if code == NO_METHOD:
        return "unsupported"
    if code == BAD_JSON:
        return "invalid"
    return next((cause for words, cause in WORDS if words in text), "internal")


WRITE_CODE: dict[Cause, str] = {
    "invalid": "INVALID_PARAMS",
    "unsupported": "METHOD_NOT_FOUND",
    "busy": "CONFLICT",
    "timeout": "TIMEOUT",
}
"""The code word of a refused `db.write`; INTERNAL for all other causes."""

CANONICAL_ROLE: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
"""Roles that both sides know; `tool` becomes system."""
