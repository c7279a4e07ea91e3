"""Error codes of pando and their causes."""

from __future__ import annotations

from typing import get_args

import pytest

from dragoman.mappings.canonical.values import Cause
from dragoman.mappings.pando.vocabulary import CODE_OF_CAUSE, cause_of


def test_every_cause_has_a_code() -> None:
    assert set(CODE_OF_CAUSE) == set(get_args(Cause))


@pytest.mark.parametrize(
    ("code", "text", "cause"),
    [
        (-32601, "ipc: method not found", "unsupported"),
        (-32700, "parse error", "invalid"),
        (-32000, "session.get: sql: no rows in result set", "not_found"),
        (-32000, "message.send: agent runner not available on this instance", "unsupported"),
        (-32000, "session.interrupt: agent interrupter not available on this instance", "denied"),
        (-32000, "message.send: session_id is required", "invalid"),
        (-32000, "dbproxy: CONFLICT (CreateSession): UNIQUE constraint failed: sessions.id", "invalid"),
        (-32000, "dbproxy: METHOD_NOT_FOUND (X): no", "unsupported"),
        (-32000, "message.send: run: session is currently processing another request", "busy"),
        (-32000, "message.send: a turn is already in progress in this session", "busy"),
        (-32000, "message.send: not sent: answer approve or deny first", "busy"),
        (-32000, "message.send: run: anything else", "internal"),
        (-32000, "message.send: run: " + "x" * 10_000 + " not found", "internal"),  # only the beginning is read
    ],
)
def test_the_cause_of_an_error_is_read_from_its_text(code: int, text: str, cause: Cause) -> None:
    assert cause_of(code, text) == cause
