"""Events of a turn in progress: what the model says, thinks and calls."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Raw

from dragoman.mappings.canonical.events.base import EventBase
from dragoman.mappings.canonical.values import Visibility

__all__ = [
    "ModelCallEnded",
    "ModelCallStarted",
    "ModelTurnEnded",
    "ModelTurnStarted",
    "Preamble",
    "ReasoningDelta",
    "ReasoningDone",
    "ReasoningStarted",
    "RunStarted",
    "StateSnapshot",
    "TextDelta",
    "TextDone",
    "ToolCallArguments",
    "ToolCallFinished",
    "ToolCallStarted",
    "ToolOutputDelta",
    "TurnAccepted",
]


class TurnAccepted(EventBase, frozen=True, kw_only=True):
    """The backend took the input of command `request`; the first event of that turn."""

    request: str = ""


class RunStarted(EventBase, frozen=True, kw_only=True):
    """Why a run began: user_send, notify, pod_event, system_reminder or wakeup."""

    kind: str
    visibility: ClassVar[Visibility] = "internal"


class ModelTurnStarted(EventBase, frozen=True, kw_only=True):
    """A model turn began; `index` counts them over the whole session, None where the dialect does not."""

    index: int | None = None


class ModelTurnEnded(EventBase, frozen=True, kw_only=True):
    """A model turn is over: `result` is finished or paused."""

    index: int | None = None
    result: Literal["finished", "paused"] = "finished"


class ModelCallStarted(EventBase, frozen=True, kw_only=True):
    """A request to the model went out; `index` counts them, None where the dialect does not."""

    index: int | None = None


class ModelCallEnded(EventBase, frozen=True, kw_only=True):
    """A request to the model is over."""

    index: int | None = None


class TextDelta(EventBase, frozen=True, kw_only=True):
    """More of the open text block of the answer; opens one if none is open."""

    text: str


class TextDone(EventBase, frozen=True, kw_only=True):
    """The open text block is complete; `text` is all of it."""

    text: str


class ReasoningStarted(EventBase, frozen=True, kw_only=True):
    """The model began to think."""

    visibility: ClassVar[Visibility] = "reasoning"


class ReasoningDelta(EventBase, frozen=True, kw_only=True):
    """More of the open reasoning block; opens one if none is open."""

    text: str
    visibility: ClassVar[Visibility] = "reasoning"


class ReasoningDone(EventBase, frozen=True, kw_only=True):
    """The open reasoning block is complete; `text` is all of it, or "" where the backend keeps it."""

    text: str
    visibility: ClassVar[Visibility] = "reasoning"


class Preamble(EventBase, frozen=True, kw_only=True):
    """Words to fill the wait; never part of the answer (smooth `stream_preamble`)."""

    text: str


class ToolCallStarted(EventBase, frozen=True, kw_only=True):
    """A tool call began. `call` "" (here and below) means the nth open call of that name."""

    name: str
    call: str = ""


class ToolCallArguments(EventBase, frozen=True, kw_only=True):
    """A fragment of a call's arguments as JSON text, or with `done` all of them."""

    json: str
    call: str = ""
    name: str = ""
    done: bool = False


class ToolOutputDelta(EventBase, frozen=True, kw_only=True):
    """More of what a running tool prints."""

    text: str
    call: str = ""


class ToolCallFinished(EventBase, frozen=True, kw_only=True):
    """A tool gave back a `summary`, an `output`, or both."""

    call: str = ""
    name: str = ""
    summary: str | None = None
    output: str | None = None
    is_error: bool = False


class StateSnapshot(EventBase, frozen=True, kw_only=True):
    """The state of a node of the backend's graph, as JSON (smooth `stream_chunk`)."""

    node: str
    state: Raw
