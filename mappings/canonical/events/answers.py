"""Events that answer one command and go to the link that asked."""

from __future__ import annotations

from typing import ClassVar

from msgspec import UNSET, Raw, UnsetType

from dragoman.mappings.canonical.events.base import EventBase
from dragoman.mappings.canonical.values import Completion, Failure, Visibility

__all__ = ["CompletionsListed", "PodAttached", "PodInspected", "Pong", "Reply"]


class CompletionsListed(EventBase, frozen=True, kw_only=True):
    """Answers ListCompletions."""

    kind: str
    entries: tuple[Completion, ...]
    request: str = ""


class PodInspected(EventBase, frozen=True, kw_only=True):
    """Answers GetSession on a pod: its JSON description."""

    pod: Raw
    request: str = ""
    visibility: ClassVar[Visibility] = "internal"


class PodAttached(EventBase, frozen=True, kw_only=True):
    """Answers ResumeSession on a pod: its JSON result."""

    result: Raw
    request: str = ""
    visibility: ClassVar[Visibility] = "internal"


class Pong(EventBase, frozen=True, kw_only=True):
    """Answers Ping; `at` in ns."""

    request: str = ""
    at: int = 0


class Reply(EventBase, frozen=True, kw_only=True):
    """Answers the command `request` where no typed answer exists: a failure, or well with its JSON, if any."""

    request: str
    failure: Failure | None = None
    result: Raw | UnsetType = UNSET
