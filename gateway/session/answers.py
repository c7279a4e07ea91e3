"""Which events answer one command: they go to the link that asked, not into the log (translation.md 3.18)."""

from __future__ import annotations

from typing import Any

from mappings.canonical.events import (
    CompletionsListed,
    HistorySnapshot,
    InteractionInvalid,
    OtpInvalid,
    OtpVerified,
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

ASKED_FOR = frozenset({HistorySnapshot, OtpVerified, OtpInvalid, InteractionInvalid})

ADDRESSED = ANSWERS | ASKED_FOR
"""Types that may answer a command; of the latter those that name its request, else they are told to everybody."""


def answers_one(event: Any) -> bool:
    """Whether an event answers one command."""
    return type(event) in ANSWERS or (type(event) in ASKED_FOR and bool(event.request))
