"""Events of a model call's accounts and of how a turn comes to its end."""

from __future__ import annotations

from typing import ClassVar

from dragoman.mappings.canonical.events.base import EventBase
from dragoman.mappings.canonical.values import Cause, End, Failure, Status, Usage, Visibility

__all__ = [
    "ErrorReported",
    "ModelContinuation",
    "ModelRetry",
    "StatusChanged",
    "TurnEnded",
    "TurnResult",
    "UsageReported",
]


class UsageReported(EventBase, frozen=True, kw_only=True):
    """What one model call used."""

    usage: Usage


class ModelRetry(EventBase, frozen=True, kw_only=True):
    """A model call failed and is tried again after `wait_ms`; `status` is the HTTP status, if any."""

    index: int
    failed_attempt: int
    max_attempts: int
    wait_ms: int
    elapsed_ms: int
    text: str
    status: int | None = None
    visibility: ClassVar[Visibility] = "internal"


class ModelContinuation(EventBase, frozen=True, kw_only=True):
    """The model's stream broke midway and is taken up again."""

    index: int
    attempt: int
    max_attempts: int
    reason: str
    visibility: ClassVar[Visibility] = "internal"


class TurnResult(EventBase, frozen=True, kw_only=True):
    """The output of the turn is over. Not terminal: TurnEnded follows."""

    end: End


class TurnEnded(EventBase, frozen=True, kw_only=True):
    """The one terminal of a turn: its whole visible text, the id of the answer, usage, and the cause of a failure."""

    end: End
    text: str = ""
    message: str = ""
    usage: Usage | None = None
    failure: Failure | None = None


class StatusChanged(EventBase, frozen=True, kw_only=True):
    """The backend is idle, running or paused now."""

    status: Status


class ErrorReported(EventBase, frozen=True, kw_only=True):
    """Something failed. Not terminal: a turn that ends by it says so in TurnEnded."""

    cause: Cause
    text: str
