"""Find the function that handles an event by the type of the event, in tables that mypy checks.

    HANDLERS: Handlers[Content, [], None] = dict([handler(events.TextDelta, Content.text_delta)])

`Handlers[S, P, R]` holds functions that take an object S to change, then the event, then the parameters P, and return
R. mypy refuses a handler that does not take the type of its row. A handler may take several types: it has a row for
each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

E = TypeVar("E")
S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")

Handlers = dict[type, Callable[Concatenate[S, Any, P], R]]


def handler(
    kind: type[E], handle: Callable[Concatenate[S, E, P], R]
) -> tuple[type, Callable[Concatenate[S, Any, P], R]]:
    """Return a row of a table: the function that handles events of this type."""
    return kind, handle
