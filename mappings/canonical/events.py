"""Events: what a backend tells its clients (translation.md, section 2, in its order).

An event carries content and `ext` only; session, turn, origin and time stand on its batch. Events with a
`request` answer one command and go to the link that asked; HistorySnapshot and Reply without one, and all
other events, go to everybody who is attached.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Union

from msgspec import Raw, Struct

from mappings.canonical.unmapped import Unmapped
from mappings.canonical.values import (
    Backend,
    Cause,
    Completion,
    End,
    Ext,
    Failure,
    FieldError,
    Item,
    Message,
    SessionSummary,
    Status,
    Usage,
    Visibility,
    snake_case,
)

__all__ = [
    "Alert",
    "ApprovalRequested",
    "ApprovalResolved",
    "BackendShutdown",
    "CompactionDone",
    "CompactionFailed",
    "CompactionStarted",
    "CompletionsListed",
    "ErrorReported",
    "Event",
    "Gap",
    "GoalCleared",
    "GoalUpdated",
    "Heartbeat",
    "HistorySnapshot",
    "InteractionInvalid",
    "InteractionRequired",
    "InteractionResolved",
    "LifecycleReport",
    "McpStartup",
    "MemoryWork",
    "MessageAppended",
    "ModelCallEnded",
    "ModelCallStarted",
    "ModelContinuation",
    "ModelRetry",
    "ModelTurnEnded",
    "ModelTurnStarted",
    "OtpInvalid",
    "OtpRequired",
    "OtpSent",
    "OtpVerified",
    "PodAttached",
    "PodInspected",
    "Pong",
    "Preamble",
    "ReasoningDelta",
    "ReasoningDone",
    "ReasoningStarted",
    "Reply",
    "RunStarted",
    "SessionActivated",
    "SessionClosed",
    "SessionOpened",
    "SessionUpdated",
    "SessionsListed",
    "StateSnapshot",
    "StatusChanged",
    "StoreChanged",
    "TextDelta",
    "TextDone",
    "ToolCallArguments",
    "ToolCallFinished",
    "ToolCallStarted",
    "ToolOutputDelta",
    "TurnAccepted",
    "TurnEnded",
    "TurnResult",
    "UsageReported",
]


class EventBase(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="type", tag=snake_case):
    """Base of the events."""

    visibility: ClassVar[Visibility] = "public"

    ext: Ext | None = None


# -- sessions ---------------------------------------------------------------------------------------


class SessionOpened(EventBase, frozen=True, kw_only=True):
    """Answers OpenSession, ResumeSession and GetSession. `agent` is the agent id that the client named."""

    request: str
    session: str
    agent: str = ""
    title: str = ""
    status: Status = "idle"


class SessionUpdated(EventBase, frozen=True, kw_only=True):
    """A session's description changed."""

    session: SessionSummary


class SessionActivated(EventBase, frozen=True, kw_only=True):
    """A client brought this session to the front."""

    session: SessionSummary


class SessionClosed(EventBase, frozen=True, kw_only=True):
    """A session is gone; its last description."""

    session: SessionSummary


class SessionsListed(EventBase, frozen=True, kw_only=True):
    """Answers ListSessions, newest first; `next_cursor` None on the last page."""

    request: str
    sessions: tuple[SessionSummary, ...]
    next_cursor: str | None = None


class HistorySnapshot(EventBase, frozen=True, kw_only=True):
    """A session's history: all of it, replacing what was known, or with a `request` the page asked for.

    A whole history is oldest first and tells status and backend where the dialect does; a page is newest
    first, `next_cursor` None on the last. `rotated` marks a history that changed under attached clients.
    """

    items: tuple[Item, ...]
    request: str = ""
    status: Status | None = None
    backend: Backend | None = None
    next_cursor: str | None = None
    rotated: bool = False


class MessageAppended(EventBase, frozen=True, kw_only=True):
    """The user or the system said something. A system message is internal (translation.md 3.8)."""

    message: Message


# -- turns ------------------------------------------------------------------------------------------


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


# -- questions --------------------------------------------------------------------------------------


class ApprovalRequested(EventBase, frozen=True, kw_only=True):
    """May the backend do this? Answered by AnswerApproval. `question` is the gateway's id of it."""

    tool: str
    description: str
    question: str = ""


class ApprovalResolved(EventBase, frozen=True, kw_only=True):
    """An approval was given or denied."""

    approved: bool
    question: str = ""


class OtpRequired(EventBase, frozen=True, kw_only=True):
    """A tool wants the user's identity verified; `channels` are email and sms."""

    tool: str
    description: str
    channels: tuple[str, ...]
    auth_level: str


class OtpSent(EventBase, frozen=True, kw_only=True):
    """A one-time code is on its way to the masked `destination`."""

    channel: str
    destination: str


class OtpVerified(EventBase, frozen=True, kw_only=True):
    """The code was right."""

    text: str


class OtpInvalid(EventBase, frozen=True, kw_only=True):
    """The code was wrong; `reason` is the dialect's own code, "" if it gave none."""

    attempts_remaining: int
    text: str
    reason: str = ""


class InteractionRequired(EventBase, frozen=True, kw_only=True):
    """A form for the user: `spec` is its JSON description. Answered by AnswerInteraction."""

    question: str
    kind: str
    spec: Raw
    reason: str


class InteractionInvalid(EventBase, frozen=True, kw_only=True):
    """The answer was refused; the question stays open."""

    question: str
    kind: str
    errors: tuple[FieldError, ...]
    text: str


class InteractionResolved(EventBase, frozen=True, kw_only=True):
    """The form was filled in or declined."""

    question: str
    declined: bool = False


# -- the model and the end of a turn ----------------------------------------------------------------


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


class Alert(EventBase, frozen=True, kw_only=True):
    """Something an operator should know; `at` in ns."""

    level: Literal["warn", "error"]
    source: str
    text: str
    at: int = 0
    visibility: ClassVar[Visibility] = "internal"


class ErrorReported(EventBase, frozen=True, kw_only=True):
    """Something failed. Not terminal: a turn that ends by it says so in TurnEnded."""

    cause: Cause
    text: str


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
    report: Raw | None = None


class Pong(EventBase, frozen=True, kw_only=True):
    """Answers Ping; `at` in ns."""

    request: str = ""
    at: int = 0


class BackendShutdown(EventBase, frozen=True, kw_only=True):
    """The backend goes away."""

    reason: str = ""


class Reply(EventBase, frozen=True, kw_only=True):
    """Answers the command `request` where no typed answer exists: a failure, or well with its JSON, if any."""

    request: str
    failure: Failure | None = None
    result: Raw | None = None


class Gap(EventBase, frozen=True, kw_only=True):
    """Something is known to be lost; `count` 0 means nobody knows how much."""

    text: str
    count: int = 0
    visibility: ClassVar[Visibility] = "internal"


Event = Union[  # noqa: UP007  # fifty-nine names read better in a list than joined by bars
    SessionOpened,
    SessionUpdated,
    SessionActivated,
    SessionClosed,
    SessionsListed,
    HistorySnapshot,
    MessageAppended,
    TurnAccepted,
    RunStarted,
    ModelTurnStarted,
    ModelTurnEnded,
    ModelCallStarted,
    ModelCallEnded,
    TextDelta,
    TextDone,
    ReasoningStarted,
    ReasoningDelta,
    ReasoningDone,
    Preamble,
    ToolCallStarted,
    ToolCallArguments,
    ToolOutputDelta,
    ToolCallFinished,
    StateSnapshot,
    ApprovalRequested,
    ApprovalResolved,
    OtpRequired,
    OtpSent,
    OtpVerified,
    OtpInvalid,
    InteractionRequired,
    InteractionInvalid,
    InteractionResolved,
    UsageReported,
    ModelRetry,
    ModelContinuation,
    TurnResult,
    TurnEnded,
    StatusChanged,
    Alert,
    ErrorReported,
    CompactionStarted,
    CompactionDone,
    CompactionFailed,
    MemoryWork,
    McpStartup,
    GoalUpdated,
    GoalCleared,
    CompletionsListed,
    PodInspected,
    PodAttached,
    LifecycleReport,
    StoreChanged,
    Heartbeat,
    Pong,
    BackendShutdown,
    Reply,
    Gap,
    Unmapped,
]
