"""What a backend reports of itself."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import UNSET, Raw, UnsetType

from dragoman.mappings.canonical.events.base import EventBase
from dragoman.mappings.canonical.values import Visibility

__all__ = [
    "Alert",
    "BackendShutdown",
    "CompactionDone",
    "CompactionFailed",
    "CompactionStarted",
    "Gap",
    "GoalCleared",
    "GoalUpdated",
    "Heartbeat",
    "LifecycleReport",
    "McpStartup",
    "MemoryWork",
    "StoreChanged",
]


class Alert(EventBase, frozen=True, kw_only=True):
    """Something an operator should know; `at` in ns."""

    level: Literal["warn", "error"]
    source: str
    text: str
    at: int = 0
    visibility: ClassVar[Visibility] = "internal"


class CompactionStarted(EventBase, frozen=True, kw_only=True):
    """The history is being summarised."""

    visibility: ClassVar[Visibility] = "internal"


class CompactionDone(EventBase, frozen=True, kw_only=True):
    """The history was summarised into `segment`."""

    segment: str
    visibility: ClassVar[Visibility] = "internal"


class CompactionFailed(EventBase, frozen=True, kw_only=True):
    """The history was not summarised."""

    text: str
    visibility: ClassVar[Visibility] = "internal"


class MemoryWork(EventBase, frozen=True, kw_only=True):
    """A memory worker of the backend reports; the fields are its own words, `at` in ns."""

    worker: str
    status: str
    run: str
    trigger: str
    reason: str
    text: str
    at: int
    visibility: ClassVar[Visibility] = "internal"


class McpStartup(EventBase, frozen=True, kw_only=True):
    """MCP servers of the backend come up; `report` is its JSON."""

    report: Raw
    visibility: ClassVar[Visibility] = "internal"


class GoalUpdated(EventBase, frozen=True, kw_only=True):
    """A conversation's goal, as the backend's JSON."""

    goal: Raw


class GoalCleared(EventBase, frozen=True, kw_only=True):
    """A conversation has no goal any more."""


class LifecycleReport(EventBase, frozen=True, kw_only=True):
    """A hook line of an old codewhale, as JSON."""

    report: Raw
    visibility: ClassVar[Visibility] = "internal"


class StoreChanged(EventBase, frozen=True, kw_only=True):
    """The backend's store changed (pando `db.*`); `change` is its JSON."""

    topic: str
    change: Raw
    visibility: ClassVar[Visibility] = "internal"


class Heartbeat(EventBase, frozen=True, kw_only=True):
    """The backend lives."""

    request: str = ""
    report: Raw | UnsetType = UNSET


class BackendShutdown(EventBase, frozen=True, kw_only=True):
    """The backend goes away."""

    reason: str = ""


class Gap(EventBase, frozen=True, kw_only=True):
    """Something is known to be lost; `count` 0 means nobody knows how much.

    `context` says that the model has forgotten the conversation: every client of the session is told.
    """

    text: str
    count: int = 0
    context: bool = False
    visibility: ClassVar[Visibility] = "internal"
