"""Events: what a backend tells its clients (docs/translation.md, section 2, in its order).

An event carries content and `ext` only; session, turn, origin and time stand on its batch. Events with a `request`
answer one command and go to the link that asked; HistorySnapshot and Reply without one, and all other events, go to
everybody who is attached. What is true of every event of a kind stands on its class (facts.py).
"""

from __future__ import annotations

from typing import Literal, Union

from msgspec import UNSET, Raw, UnsetType

from dragoman.mappings.canonical import values
from dragoman.mappings.canonical.facts import EventBase, InternalEvent, TurnDetail, TurnEvent
from dragoman.mappings.canonical.unmapped import Unmapped
from dragoman.mappings.canonical.values import Failure, SessionSummary, Status, Usage

# -- sessions and their history --------------------------------------------------------------------


class SessionOpened(EventBase, frozen=True, kw_only=True):
    """Answers OpenSession, ResumeSession and GetSession. `agent` is the agent id that the client named."""

    request: str
    session: str
    agent: str = ""
    title: str = ""
    status: Status = "idle"
    answers = "always"


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
    answers = "always"


class HistorySnapshot(EventBase, frozen=True, kw_only=True):
    """A session's history: all of it, replacing what was known, or with a `request` the page asked for.

    A whole history is oldest first and tells status and backend where the dialect does; a page is newest
    first, `next_cursor` None on the last. `rotated` marks a history that changed under attached clients.
    `runs` are the runs of a whole history, oldest first, and `conversation` is the backend's id of what it tells,
    both where the dialect tells them. `compacted` says that a summary stands for what was said first; `summed_up` is
    how many of `items` the backend's own account, of which they are no part, stands for then: the session sets it.
    """

    items: tuple[values.Item, ...]
    request: str = ""
    status: Status | None = None
    backend: values.Backend | None = None
    next_cursor: str | None = None
    rotated: bool = False
    runs: tuple[values.PastRun, ...] = ()
    conversation: str = ""
    compacted: bool = False
    summed_up: int = 0
    answers = "by_request"


class MessageAppended(EventBase, frozen=True, kw_only=True):
    """The user or the system said something. A system message is internal (docs/translation.md, rule 3.8)."""

    message: values.Message


# -- a turn in progress: what the model says, thinks and calls -------------------------------------


class TurnAccepted(EventBase, frozen=True, kw_only=True):
    """The backend took the input of command `request`; the first event of that turn."""

    request: str = ""
    answers = "always"


class RunStarted(InternalEvent, frozen=True, kw_only=True):
    """Why a run began: user_send, notify, pod_event, system_reminder or wakeup."""

    kind: str


class ModelTurnStarted(TurnEvent, frozen=True, kw_only=True):
    """A model turn began; `index` counts them over the whole session, None where the dialect does not."""

    index: int | None = None


class ModelTurnEnded(TurnDetail, frozen=True, kw_only=True):
    """A model turn is over: `result` is finished or paused."""

    index: int | None = None
    result: Literal["finished", "paused"] = "finished"


class ModelCallStarted(TurnDetail, frozen=True, kw_only=True):
    """A request to the model went out; `index` counts them, None where the dialect does not."""

    index: int | None = None


class ModelCallEnded(TurnDetail, frozen=True, kw_only=True):
    """A request to the model is over."""

    index: int | None = None


class TextDelta(TurnEvent, frozen=True, kw_only=True):
    """More of the open text block of the answer; opens one if none is open."""

    text: str
    streamed = True


class TextDone(TurnEvent, frozen=True, kw_only=True):
    """The open text block is complete; `text` is all of it."""

    text: str


class ReasoningStarted(TurnEvent, frozen=True, kw_only=True):
    """The model began to think."""

    visibility = "reasoning"


class ReasoningDelta(TurnEvent, frozen=True, kw_only=True):
    """More of the open reasoning block; opens one if none is open."""

    text: str
    visibility = "reasoning"
    streamed = True


class ReasoningDone(TurnEvent, frozen=True, kw_only=True):
    """The open reasoning block is complete; `text` is all of it, or "" where the backend keeps it."""

    text: str
    visibility = "reasoning"


class Preamble(TurnDetail, frozen=True, kw_only=True):
    """Words to fill the wait; never part of the answer (smooth `stream_preamble`)."""

    text: str


class ToolCallStarted(TurnDetail, frozen=True, kw_only=True):
    """A tool call began. `call` "" (here and below) means the nth open call of that name."""

    name: str
    call: str = ""


class ToolCallArguments(TurnDetail, frozen=True, kw_only=True):
    """A fragment of a call's arguments as JSON text, or with `done` all of them."""

    json: str
    call: str = ""
    name: str = ""
    done: bool = False


class ToolOutputDelta(TurnDetail, frozen=True, kw_only=True):
    """More of what a running tool prints."""

    text: str
    call: str = ""
    streamed = True


class ToolCallFinished(TurnDetail, frozen=True, kw_only=True):
    """A tool gave back a `summary`, an `output`, or both."""

    call: str = ""
    name: str = ""
    summary: str | None = None
    output: str | None = None
    is_error: bool = False


class StateSnapshot(TurnDetail, frozen=True, kw_only=True):
    """The state of a node of the backend's graph, as JSON (smooth `stream_chunk`)."""

    node: str
    state: Raw


# -- questions to the user -------------------------------------------------------------------------


class ApprovalRequested(TurnEvent, frozen=True, kw_only=True):
    """May the backend do this? Answered by AnswerApproval. `question` is the gateway's id of it."""

    tool: str
    description: str
    question: str = ""
    waits_for_answer = True


class ApprovalResolved(TurnEvent, frozen=True, kw_only=True):
    """An approval was given or denied."""

    approved: bool
    question: str = ""


class OtpRequired(TurnEvent, frozen=True, kw_only=True):
    """A tool wants the user's identity verified; `channels` are email and sms."""

    tool: str
    description: str
    channels: tuple[str, ...]
    auth_level: str
    waits_for_answer = True


class OtpSent(TurnEvent, frozen=True, kw_only=True):
    """A one-time code is on its way to the masked `destination`."""

    channel: str
    destination: str


class OtpVerified(EventBase, frozen=True, kw_only=True):
    """The code was right. Answers AnswerOtp."""

    text: str
    request: str = ""
    answers = "by_request"


class OtpInvalid(EventBase, frozen=True, kw_only=True):
    """The code was wrong; `reason` is the dialect's own code, "" if it gave none. Answers AnswerOtp."""

    attempts_remaining: int
    text: str
    reason: str = ""
    request: str = ""
    answers = "by_request"


class InteractionRequired(TurnEvent, frozen=True, kw_only=True):
    """A form for the user: `spec` is its JSON description. Answered by AnswerInteraction."""

    question: str
    kind: str
    spec: Raw
    reason: str
    waits_for_answer = True


class InteractionInvalid(EventBase, frozen=True, kw_only=True):
    """The answer was refused; the question stays open. Answers AnswerInteraction."""

    question: str
    kind: str
    errors: tuple[values.FieldError, ...]
    text: str
    request: str = ""
    answers = "by_request"


class InteractionResolved(TurnEvent, frozen=True, kw_only=True):
    """The form was filled in or declined."""

    question: str
    declined: bool = False


class QuestionAsked(EventBase, frozen=True, kw_only=True):
    """A question in words, said by the gateway, for dialects that have none.

    With `parked` the turn waits for the answer, and the client's run ends here: `before` is the turn's visible text so
    far, of which the question is no part, `number` counts such ends of the turn's runs from 1. Without it (a one-time
    code) the run goes on. `kind` is the interaction's, "" for everything else. `after_text` says that the run showed
    text before it.
    """

    text: str
    question: str = ""
    kind: str = ""
    before: str = ""
    number: int = 0
    parked: bool = False
    after_text: bool = False

    @property
    def paragraph(self) -> str:
        """The words as the next text of the run: behind other text a paragraph of their own."""
        return f"\n\n{self.text}" if self.after_text else self.text


class QuestionAnswered(EventBase, frozen=True, kw_only=True):
    """The question is answered and the turn goes on, as a run of its own where it was put in words.

    `segments` is what the user typed, () where the answer came otherwise: by another client's form, by the deadline.
    `kind`, `before` and `number` are those of the QuestionAsked that is answered, `model_turn` is the index of the
    model turn with which that run begins. Outside of any turn it begins a run for what the gateway has to say.
    """

    question: str = ""
    kind: str = ""
    before: str = ""
    number: int = 0
    model_turn: int | None = None
    segments: tuple[values.Segment, ...] = ()


# -- a model call's accounts, and how a turn ends --------------------------------------------------


class UsageReported(TurnDetail, frozen=True, kw_only=True):
    """What one model call used."""

    usage: Usage


class ModelRetry(TurnDetail, frozen=True, kw_only=True):
    """A model call failed and is tried again after `wait_ms`; `status` is the HTTP status, if any."""

    index: int
    failed_attempt: int
    max_attempts: int
    wait_ms: int
    elapsed_ms: int
    text: str
    status: int | None = None
    visibility = "internal"


class ModelContinuation(TurnDetail, frozen=True, kw_only=True):
    """The model's stream broke midway and is taken up again."""

    index: int
    attempt: int
    max_attempts: int
    reason: str
    visibility = "internal"


class TurnResult(TurnEvent, frozen=True, kw_only=True):
    """The output of the turn is over. Not terminal: TurnEnded follows."""

    end: values.End


class TurnEnded(TurnEvent, frozen=True, kw_only=True):
    """The one terminal of a turn: its whole visible text, the id of the answer, usage, and the cause of a failure."""

    end: values.End
    text: str = ""
    message: str = ""
    usage: Usage | None = None
    failure: Failure | None = None


class StatusChanged(EventBase, frozen=True, kw_only=True):
    """The backend is idle, running or paused now."""

    status: Status


class ErrorReported(TurnEvent, frozen=True, kw_only=True):
    """Something failed. Not terminal: a turn that ends by it says so in TurnEnded."""

    cause: values.Cause
    text: str


# -- what a backend reports of itself --------------------------------------------------------------


class Alert(InternalEvent, frozen=True, kw_only=True):
    """Something an operator should know; `at` in ns."""

    level: Literal["warn", "error"]
    source: str
    text: str
    at: int = 0


class CompactionStarted(InternalEvent, frozen=True, kw_only=True):
    """The history is being summarised."""


class CompactionDone(InternalEvent, frozen=True, kw_only=True):
    """The history was summarised into `segment`."""

    segment: str


class CompactionFailed(InternalEvent, frozen=True, kw_only=True):
    """The history was not summarised."""

    text: str


class MemoryWork(InternalEvent, frozen=True, kw_only=True):
    """A memory worker of the backend reports; the fields are its own words, `at` in ns."""

    worker: str
    status: str
    run: str
    trigger: str
    reason: str
    text: str
    at: int


class McpStartup(InternalEvent, frozen=True, kw_only=True):
    """MCP servers of the backend come up; `report` is its JSON."""

    report: Raw


class GoalUpdated(EventBase, frozen=True, kw_only=True):
    """A conversation's goal, as the backend's JSON."""

    goal: Raw


class GoalCleared(EventBase, frozen=True, kw_only=True):
    """A conversation has no goal any more."""


class LifecycleReport(InternalEvent, frozen=True, kw_only=True):
    """A hook line of an old codewhale, as JSON."""

    report: Raw


class StoreChanged(InternalEvent, frozen=True, kw_only=True):
    """The backend's store changed (pando `db.*`); `change` is its JSON."""

    topic: str
    change: Raw


class Heartbeat(EventBase, frozen=True, kw_only=True):
    """The backend lives."""

    request: str = ""
    report: Raw | UnsetType = UNSET


class BackendShutdown(EventBase, frozen=True, kw_only=True):
    """The backend goes away."""

    reason: str = ""


class Gap(InternalEvent, frozen=True, kw_only=True):
    """Something is known to be lost; `count` 0 means nobody knows how much.

    `context` says that the model has forgotten the conversation: every client of the session is told.
    """

    text: str
    count: int = 0
    context: bool = False


# -- answers to one command, for the link that asked -----------------------------------------------


class CompletionsListed(EventBase, frozen=True, kw_only=True):
    """Answers ListCompletions."""

    kind: str
    entries: tuple[values.Completion, ...]
    request: str = ""
    answers = "always"


class PodInspected(InternalEvent, frozen=True, kw_only=True):
    """Answers GetSession on a pod: its JSON description."""

    pod: Raw
    request: str = ""
    answers = "always"


class PodAttached(InternalEvent, frozen=True, kw_only=True):
    """Answers ResumeSession on a pod: its JSON result."""

    result: Raw
    request: str = ""
    answers = "always"


class Pong(EventBase, frozen=True, kw_only=True):
    """Answers Ping; `at` in ns."""

    request: str = ""
    at: int = 0
    answers = "always"


class Reply(EventBase, frozen=True, kw_only=True):
    """Answers the command `request` where no typed answer exists: a failure, or well with its JSON, if any."""

    request: str
    failure: Failure | None = None
    result: Raw | UnsetType = UNSET
    answers = "always"


Event = Union[  # noqa: UP007  # sixty-one names read better in a list than joined by bars
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
    QuestionAsked,
    QuestionAnswered,
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
