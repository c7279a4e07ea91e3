"""The params of requests (docs/dialects/codewhale.md, section 2.1), without the `kind` that some stand beside."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Raw, UnsetType

from dragoman.mappings.codewhale.wire.base import Wire
from dragoman.mappings.codewhale.wire.values import Answer

__all__ = [
    "AnswersParams",
    "CreateParams",
    "ForkParams",
    "GoalParams",
    "KeyParams",
    "ListParams",
    "MessageParams",
    "NameParams",
    "NoParams",
    "OfThread",
    "ProgressParams",
    "PromptParams",
    "ResumeParams",
    "SettingParams",
    "StartParams",
]


class Params(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Base of the params. An option that is null is none, and is left out when it is written again."""


class NoParams(Params, frozen=True, kw_only=True):
    """Params of a kind that has none."""


class CreateParams(Params, frozen=True, kw_only=True):
    """Any JSON, which servers ignore."""

    metadata: Raw | UnsetType = UNSET


class StartParams(Params, frozen=True, kw_only=True):
    """How a thread begins."""

    model: str | None = None
    model_provider: str | None = None
    cwd: str | None = None
    persist_extended_history: bool | UnsetType = UNSET


class ResumeParams(Params, frozen=True, kw_only=True):
    """Which thread goes on, and how."""

    thread_id: str
    history: list[Raw] | None = None
    path: str | None = None
    model: str | None = None
    model_provider: str | None = None
    cwd: str | None = None
    approval_policy: str | None = None
    sandbox: str | None = None
    config: Raw | UnsetType = UNSET
    base_instructions: str | None = None
    developer_instructions: str | None = None
    personality: str | None = None
    persist_extended_history: bool | UnsetType = UNSET


class ForkParams(Params, frozen=True, kw_only=True):
    """From which thread another begins, and how."""

    thread_id: str
    path: str | None = None
    model: str | None = None
    model_provider: str | None = None
    cwd: str | None = None
    approval_policy: str | None = None
    sandbox: str | None = None
    config: Raw | UnsetType = UNSET
    base_instructions: str | None = None
    developer_instructions: str | None = None
    persist_extended_history: bool | UnsetType = UNSET


class ListParams(Params, frozen=True, kw_only=True):
    """How many threads, and which."""

    include_archived: bool | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=0)] | None = None

    @classmethod
    def asking(cls, limit: int, archived: bool) -> ListParams | UnsetType:
        """As they are usually said: what is usual is left out."""
        return cls(include_archived=archived or UNSET, limit=limit or None) if limit or archived else UNSET


class OfThread(Params, frozen=True, kw_only=True):
    """One thread."""

    thread_id: str


class NameParams(Params, frozen=True, kw_only=True):
    """A thread and its name."""

    thread_id: str
    name: str


class GoalParams(Params, frozen=True, kw_only=True):
    """A thread and its goal."""

    thread_id: str
    objective: str
    token_budget: int | None = None


class ProgressParams(Params, frozen=True, kw_only=True):
    """What a thread used on the way to its goal."""

    thread_id: str
    token_delta: int | UnsetType = UNSET
    time_delta_seconds: int | UnsetType = UNSET
    record_continuation: bool | UnsetType = UNSET


class MessageParams(Params, frozen=True, kw_only=True):
    """A thread and what the user says."""

    thread_id: str
    input: str


class KeyParams(Params, frozen=True, kw_only=True):
    """A setting."""

    key: str


class SettingParams(Params, frozen=True, kw_only=True):
    """A setting and its value, always a string."""

    key: str
    value: str


class AnswersParams(Params, frozen=True, kw_only=True):
    """What the user answered."""

    request_id: str
    answers: list[Answer]


class PromptParams(Params, frozen=True, kw_only=True):
    """One prompt."""

    thread_id: str | None = None
    prompt: str
    model: str | None = None
