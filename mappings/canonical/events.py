"""Events: the messages of a backend to its clients (docs/translation.md, section 2).

An event carries only content and `ext`; its batch has the session, turn, origin and time. An event with a `request`
answers one command and goes to the link that asked. All others go to every attached client. Facts about a kind of event
are attributes of its class (facts.py).
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Raw, UnsetType

from dragoman.mappings.canonical import values
from dragoman.mappings.canonical.facts import (
    AnswerEvent,
    CallDetail,
    EndOfTurn,
    EventBase,
    InternalEvent,
    SessionNews,
    TurnDetail,
    TurnEvent,
)

# -- sessions and their history --------------------------------------------------------------------


class SessionOpened(AnswerEvent, frozen=True, kw_only=True):
    """Answer to OpenSession, ResumeSession and GetSession. `agent` is the agent id that the client asked for."""

    request: str
    session: str
    agent: str = ""
    title: str = ""
    status: values.Status = "idle"


class SessionUpdated(SessionNews, frozen=True, kw_only=True):
    """A session's description changed."""

    bookkeeping = True


class SessionActivated(SessionNews, frozen=True, kw_only=True):
    """A client brought this session to the front."""


class SessionClosed(SessionNews, frozen=True, kw_only=True):
    """A session was closed; `session` is its last description."""


class SessionsListed(AnswerEvent, frozen=True, kw_only=True):
    """Answer to ListSessions, newest first; `next_cursor` is None on the last page."""

    request: str
    sessions: tuple[values.SessionSummary, ...]
    next_cursor: str | None = None


class HistorySnapshot(EventBase, frozen=True, kw_only=True):
    """A session's history: the whole history, oldest first; or, with a `request`, one page, newest first.

    A whole history replaces the known one; the list of a store, without `status`, only adds to it. If the dialect has
    them, it includes `status`, `backend`, `runs` (oldest first) and `conversation` (the backend's id). `rotated` is
    True if the history changed while clients were attached. `next_cursor` is None on the last page. `compacted` is True
    if a summary replaces the oldest items. The session sets `summed_up`: how many of `items` are only in that summary.
    """

    items: tuple[values.Item, ...]
    request: str = ""
    status: values.Status | None = None
    backend: values.BackendInfo | None = None
    next_cursor: str | None = None
    rotated: bool = False
    runs: tuple[values.PastRun, ...] = ()
    conversation: str = ""
    compacted: bool = False
    summed_up: int = 0
    answers = "by_request"
    bookkeeping = gateway_adds = True


class MessageAppended(EventBase, frozen=True, kw_only=True):
    """A message of the user or the system. A system message is internal (docs/translation.md, rule 3.8)."""

    message: values.Message
    gateway_adds = True

    def implies(self, field: str) -> bool:
        """Return True for the segments of a message that is only text: `text` then says the same."""
        return field == "message.segments" and values.only_text(self.message.segments)


# -- a turn in progress: text, reasoning and tool calls of the model --------------------------------


class TurnAccepted(AnswerEvent, frozen=True, kw_only=True):
    """The first event of a turn: the backend accepted the input of command `request`."""

    request: str = ""


class RunStarted(InternalEvent, frozen=True, kw_only=True):
    """A run began; `kind` is user_send, notify, pod_event, system_reminder or wakeup."""

    kind: str


class ModelTurnStarted(TurnEvent, frozen=True, kw_only=True):
    """A model turn began; `index` counts the model turns of the session, None until the session counts it."""

    index: int | None = None
    bookkeeping = gateway_adds = True


class ModelTurnEnded(TurnDetail, frozen=True, kw_only=True):
    """A model turn ended."""

    index: int | None = None
    result: Literal["finished", "paused"] = "finished"
    bookkeeping = gateway_adds = True


class ModelCallStarted(TurnDetail, frozen=True, kw_only=True):
    """A request to the model was sent; `index` counts these requests, None if the dialect does not count."""

    index: int | None = None
    bookkeeping = True


class ModelCallEnded(TurnDetail, frozen=True, kw_only=True):
    """A request to the model ended."""

    index: int | None = None
    bookkeeping = True


class TextDelta(TurnEvent, frozen=True, kw_only=True):
    """A piece of the answer's open text block; opens one if none is open."""

    text: str
    streamed = True


class TextDone(TurnEvent, frozen=True, kw_only=True):
    """The open text block is complete; `text` is the whole block."""

    text: str
    gateway_adds = True


class ReasoningStarted(TurnEvent, frozen=True, kw_only=True):
    """A reasoning block began."""

    visibility = "reasoning"
    gateway_adds = True


class ReasoningDelta(TurnEvent, frozen=True, kw_only=True):
    """A piece of the open reasoning block; opens one if none is open."""

    text: str
    visibility = "reasoning"
    streamed = True


class ReasoningDone(TurnEvent, frozen=True, kw_only=True):
    """The open reasoning block is complete; `text` is the whole block, "" if the backend does not show it."""

    text: str
    visibility = "reasoning"
    gateway_adds = True


class Preamble(TurnEvent, frozen=True, kw_only=True):
    """Text shown while the user waits; never part of the answer (smooth `stream_preamble`)."""

    text: str


class ToolCallStarted(TurnDetail, frozen=True, kw_only=True):
    """A tool call began. `call` is its id; "", here and below, means the nth open call with that name."""

    name: str
    call: str = ""


class ToolCallArguments(CallDetail, frozen=True, kw_only=True):
    """A fragment of a call's arguments as JSON text; if `done`, the complete arguments."""

    json: str
    call: str = ""
    name: str = ""
    done: bool = False
    gateway_adds = True

    def implies(self, field: str) -> bool:
        """Return True for `name`, and for all fields of a fragment: the complete arguments follow."""
        return field == "name" or not self.done


class ToolOutputDelta(TurnDetail, frozen=True, kw_only=True):
    """A piece of a running tool's output."""

    text: str
    call: str = ""
    streamed = True


class ToolCallFinished(CallDetail, frozen=True, kw_only=True):
    """A tool returned a `summary`, an `output`, or both."""

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
    """The backend asks for permission; AnswerApproval answers it. `question` is the gateway's id of the question."""

    tool: str
    description: str
    question: str = ""


class ApprovalResolved(TurnEvent, frozen=True, kw_only=True):
    """An approval was given or denied."""

    approved: bool
    question: str = ""


class OtpRequired(TurnEvent, frozen=True, kw_only=True):
    """A tool needs the user's identity; a code can be sent by `channels` (email, sms)."""

    tool: str
    description: str
    channels: tuple[str, ...]
    auth_level: str


class OtpSent(TurnEvent, frozen=True, kw_only=True):
    """A one-time code was sent to the masked `destination`."""

    channel: str
    destination: str


class OtpVerified(EventBase, frozen=True, kw_only=True):
    """The one-time code was right. Answer to AnswerOtp."""

    text: str
    request: str = ""
    answers = "by_request"


class OtpInvalid(EventBase, frozen=True, kw_only=True):
    """The one-time code was wrong; `reason` is the dialect's own error code, "" if none. Answer to AnswerOtp."""

    attempts_remaining: int
    text: str
    reason: str = ""
    request: str = ""
    answers = "by_request"


class InteractionRequired(TurnEvent, frozen=True, kw_only=True):
    """The backend asks the user to fill in a form: `spec` describes it as JSON. AnswerInteraction answers it."""

    question: str
    kind: str
    spec: Raw
    reason: str


class InteractionInvalid(EventBase, frozen=True, kw_only=True):
    """The backend refused a filled-in form; the question stays open. Answer to AnswerInteraction."""

    question: str
    kind: str
    errors: tuple[values.FieldError, ...]
    text: str
    request: str = ""
    answers = "by_request"


class InteractionResolved(TurnEvent, frozen=True, kw_only=True):
    """A form was filled in or declined."""

    question: str
    declined: bool = False


class QuestionAsked(EventBase, frozen=True, kw_only=True):
    """A question that the gateway asks in words, for dialects that have no questions.

    If `parked`, the turn waits for the answer and the client's run ends here. `before` is then the turn's visible text
    before the question, and `number` counts the runs of the turn that ended with a question. A one-time code does not
    end the run. `kind` is that of an interaction, else "". `after_text` is True if the run showed text before it.
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
        """Return the question as the next text of the run; after other text it begins a new paragraph."""
        return f"\n\n{self.text}" if self.after_text else self.text


class QuestionAnswered(EventBase, frozen=True, kw_only=True):
    """A question was answered and the turn goes on, in a new run for clients that were asked in words.

    `segments` is the user's input, () if another client answered by a form, or the deadline passed. `kind`, `before`
    and `number` are copied from the QuestionAsked. `model_turn` is the index of the model turn that begins the new run.
    Outside of a turn this event begins a run for a text that the gateway itself writes.
    """

    question: str = ""
    kind: str = ""
    before: str = ""
    number: int = 0
    model_turn: int | None = None
    segments: tuple[values.Segment, ...] = ()


# -- usage and retries of model calls, and the end of a turn --------------------------------------


class UsageReported(TurnDetail, frozen=True, kw_only=True):
    """The tokens that one model call used."""

    usage: values.Usage
    gateway_adds = True


class ModelRetry(TurnDetail, frozen=True, kw_only=True):
    """A failed model call is retried after `wait_ms`; `status` is the HTTP status, if any."""

    index: int
    failed_attempt: int
    max_attempts: int
    wait_ms: int
    elapsed_ms: int
    text: str
    status: int | None = None
    visibility = "internal"


class ModelContinuation(TurnDetail, frozen=True, kw_only=True):
    """The backend continues a model's output stream that broke off."""

    index: int
    attempt: int
    max_attempts: int
    reason: str
    visibility = "internal"


class TurnResult(EndOfTurn, frozen=True, kw_only=True):
    """The output of the turn is complete. TurnEnded follows."""


class TurnEnded(EndOfTurn, frozen=True, kw_only=True):
    """The end of a turn: its whole visible text, the id of the answer, usage, and the cause of a failure."""

    text: str = ""
    message: str = ""
    usage: values.Usage | None = None
    failure: values.Failure | None = None


class StatusChanged(EventBase, frozen=True, kw_only=True):
    """The status of the backend changed."""

    status: values.Status
    gateway_adds = True


class ErrorReported(TurnEvent, frozen=True, kw_only=True):
    """An error that does not end the turn: a turn that fails ends with TurnEnded."""

    cause: values.Cause
    text: str
    gateway_adds = True


# -- reports of a backend about itself ------------------------------------------------------------


class Alert(InternalEvent, frozen=True, kw_only=True):
    """A message for operators; `at` is in ns."""

    level: Literal["warn", "error"]
    source: str
    text: str
    at: int = 0
    gateway_adds = True


class CompactionStarted(InternalEvent, frozen=True, kw_only=True):
    """The backend began to summarise the history."""


class CompactionDone(InternalEvent, frozen=True, kw_only=True):
    """The history was summarised into `segment`."""

    segment: str


class CompactionFailed(InternalEvent, frozen=True, kw_only=True):
    """The backend could not summarise the history."""

    text: str


class MemoryWork(InternalEvent, frozen=True, kw_only=True):
    """A report of a memory worker of the backend, in its own words; `at` is in ns."""

    worker: str
    status: str
    run: str
    trigger: str
    reason: str
    text: str
    at: int


class McpStartup(InternalEvent, frozen=True, kw_only=True):
    """The backend starts MCP servers; `report` is its JSON."""

    report: Raw


class GoalUpdated(EventBase, frozen=True, kw_only=True):
    """The goal of a conversation, as the backend's JSON."""

    goal: Raw


class GoalCleared(EventBase, frozen=True, kw_only=True):
    """The goal of a conversation was removed."""


class LifecycleReport(InternalEvent, frozen=True, kw_only=True):
    """A hook line of an old codewhale, as JSON."""

    report: Raw


class StoreChanged(InternalEvent, frozen=True, kw_only=True):
    """The backend's store changed (pando `db.*`); `change` is its JSON."""

    topic: str
    change: Raw


class Heartbeat(EventBase, frozen=True, kw_only=True):
    """A sign that the backend is alive."""

    request: str = ""
    report: Raw | UnsetType = UNSET


class BackendShutdown(EventBase, frozen=True, kw_only=True):
    """The backend shuts down."""

    reason: str = ""
    gateway_adds = True


class Gap(InternalEvent, frozen=True, kw_only=True):
    """Messages were lost; `count` 0 means an unknown number.

    `context` is True if the model has forgotten the conversation; then every client of the session is told.
    """

    text: str
    count: int = 0
    context: bool = False
    gateway_adds = True


# -- answers to one command, for the link that asked -----------------------------------------------


class CompletionsListed(EventBase, frozen=True, kw_only=True):
    """Answer to ListCompletions."""

    kind: str
    entries: tuple[values.Completion, ...]
    request: str = ""
    answers = "always"


class PodInspected(InternalEvent, frozen=True, kw_only=True):
    """Answer to GetSession on a pod: its JSON description."""

    pod: Raw
    request: str = ""
    answers = "always"


class PodAttached(InternalEvent, frozen=True, kw_only=True):
    """Answer to ResumeSession on a pod: its JSON result."""

    result: Raw
    request: str = ""
    answers = "always"


class Pong(AnswerEvent, frozen=True, kw_only=True):
    """Answer to Ping; `at` is in ns."""

    request: str = ""
    at: int = 0


class Reply(AnswerEvent, frozen=True, kw_only=True):
    """Answer to the command `request` if no typed answer exists: a failure, or a success with optional JSON."""

    request: str
    failure: values.Failure | None = None
    result: Raw | UnsetType = UNSET
