"""A record for each dialect, `PARTS` in tests/dialects/*.py, by which the tests treat all dialects alike."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:  # the clients and backends in a record look up other parts of it
    from tests.dialects.record import DialectParts


@cache
def parts(dialect: str) -> DialectParts:
    """Return the record of a dialect, which is imported when a test first asks for it."""
    return cast("DialectParts", import_module(f"tests.dialects.{dialect}").PARTS)
