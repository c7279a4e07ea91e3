"""Tables of handlers: the type of an event -> the function that handles it, given what it changes.

    HANDLERS: Handlers[Content, None] = dict([handler(events.TextDelta, Content.text_delta)])

mypy refuses a handler that does not take the type of its row. A handler may take several types: it has a row for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

E = TypeVar("E")
S = TypeVar("S")
R = TypeVar("R")

Handlers = dict[type, Callable[[S, Any], R]]


def handler(kind: type[E], handle: Callable[[S, E], R]) -> tuple[type, Callable[[S, Any], R]]:
    """Return a row of a table: the function that handles events of this type."""
    return kind, handle
