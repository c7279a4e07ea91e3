"""Answers and their results (docs/dialects/codewhale.md, sections 1.2, 2 and 2.2).

A result does not say what was asked: its shape tells (`shape_of`). Absent and null are told apart where both occur, for
`thread/message` at 0.9.10 writes nulls that everything else leaves out.
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
    """Result of `capabilities`, and of those of threads and prompts, which have methods only."""

    transport: str | UnsetType = UNSET
    families: list[str] | UnsetType = UNSET
    methods: list[str]


class ThreadResponse(Wire, frozen=True, kw_only=True):
    """Result of most `thread/*`. `ok` is ours: a goal that the backend has no word for is refused so (3.2)."""

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
    """Result of `app/*`; what failed is `ok` false here, and no error."""

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
    """The result that has these members; None for one that no method gives."""
    return next((shape for known, shape in SHAPES if known.issubset(names)), None)


class Problem(Wire, frozen=True, kw_only=True):
    """Why not; `data` is always there."""

    code: int
    message: str
    data: Raw = NULL


class Answer(Wire, frozen=True, kw_only=True):
    """The answer to one request; `id` is any JSON, and null where nobody could read it.

    `result` is a Result, or the JSON of one that no method gives.
    """

    jsonrpc: Literal["2.0"] = "2.0"
    id: Raw = NULL
    result: Any = UNSET
    error: Problem | UnsetType = UNSET
