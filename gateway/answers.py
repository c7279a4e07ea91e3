"""Which events answer one command: they go to the link that asked, not into the log (translation.md 3.18)."""

from __future__ import annotations

from typing import Any

from mappings.canonical.events import (
    CompletionsListed,
    HistorySnapshot,
    PodAttached,
    PodInspected,
    Pong,
    Reply,
    SessionOpened,
    SessionsListed,
    TurnAccepted,
)

__all__ = ["ADDRESSED", "answers_one"]

ANSWERS = frozenset(
    {TurnAccepted, Reply, CompletionsListed, SessionsListed, SessionOpened, PodInspected, PodAttached, Pong}
)

ADDRESSED = ANSWERS | {HistorySnapshot}
"""Types that may answer a command; a history does when it was asked for, else it is told to everybody."""


def answers_one(event: Any) -> bool:
    """Whether an event answers one command."""
    return type(event) in ANSWERS or (type(event) is HistorySnapshot and bool(event.request))
