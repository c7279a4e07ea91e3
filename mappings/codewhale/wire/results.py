"""Answers and their results (docs/dialects/codewhale.md, sections 1.2, 2 and 2.2).

A result does not say what was asked: `shape_of` recognises it by its members. Absent and null differ where both occur,
because `thread/message` at 0.9.10 writes nulls that everything else leaves out.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

from msgspec import UNSET, Raw, UnsetType

from dragoman.mappings.codewhale.wire.frames import EventFrame
from dragoman.mappings.codewhale.wire.values import Thread, ThreadGoal, Wire

EMPTY = Raw(b"{}")
NULL = Raw(b"null")

Text = str | UnsetType | None


class Health(Wire, frozen=True, kw_only=True):
    """Result of `healthz`."""

    status: str = "ok"
    service: str = "deepseek-app-server"
    transport: str = "stdio"


class Capabilities(Wire, frozen=True, kw_only=True):
    """Result of `capabilities`; those of threads and prompts have methods only."""

    transport: str | UnsetType = UNSET
    families: list[str] | UnsetType = UNSET
    methods: list[str]


class ThreadResponse(Wire, frozen=True, kw_only=True):
    """Result of most `thread/*`. `ok` is ours: it refuses a goal that the backend cannot keep."""

    thread_id: str
    status: str
    thread: Thread | UnsetType | None = UNSET
    threads: tuple[Thread, ...] = ()
    goal: ThreadGoal | UnsetType | None = UNSET
    model: Text = UNSET
    model_provider: Text = UNSET
    cwd: Text = UNSET
    approval_policy: Text = UNSET
    sandbox: Text = UNSET
    events: tuple[EventFrame, ...] = ()
    data: Raw = NULL
    ok: bool | UnsetType = UNSET


class Interrupted(Wire, frozen=True, kw_only=True):
    """Result of `thread/interrupt`."""

    thread_id: str
    interrupted: bool


class AppResponse(Wire, frozen=True, kw_only=True):
    """Result of `app/*`; a failure is `ok` false here, not an error."""

    ok: bool
    data: Raw
    events: tuple[EventFrame, ...] = ()


class PromptResponse(Wire, frozen=True, kw_only=True):
    """Result of `prompt/run`."""

    output: str
    model: str
    events: tuple[EventFrame, ...] = ()


class Stopped(Wire, frozen=True, kw_only=True):
    """Result of `shutdown`."""

    ok: bool = True
    status: str = "stopped"


Result = Health | Capabilities | ThreadResponse | Interrupted | AppResponse | PromptResponse | Stopped

SHAPES: tuple[tuple[frozenset[str], type[Wire]], ...] = (
    (frozenset(("thread_id", "interrupted")), Interrupted),
    (frozenset(("thread_id", "status")), ThreadResponse),
    (frozenset(("output", "model")), PromptResponse),
    (frozenset(("ok", "data")), AppResponse),
    (frozenset(("ok", "status")), Stopped),
    (frozenset(("methods",)), Capabilities),
    (frozenset(("status", "service")), Health),
)


def shape_of(names: Collection[str]) -> type[Wire] | None:
    """Return the result that has these members, or None if no method gives such a result."""
    return next((shape for known, shape in SHAPES if known.issubset(names)), None)


class Problem(Wire, frozen=True, kw_only=True):
    """The error of an answer; `data` is always written."""

    code: int
    message: str
    data: Raw = NULL


class Answer(Wire, frozen=True, kw_only=True):
    """The answer to one request; `id` is any JSON, and null where it could not be read.

    `result` is a Result, or the JSON of a result that no method gives.
    """

    jsonrpc: Literal["2.0"] = "2.0"
    id: Raw = NULL
    result: Any = UNSET
    error: Problem | UnsetType = UNSET
