"""Events that a pod sends to its clients (docs/dialects/pod.md, section 6, in its order).

Each event is `{"event": NAME, "data": CONTENT}`, with the keys in that order. The contents come first in this module,
then the events.

Opaque values (`entries`, `item`, `entry`, `pods`, `pod`, `result`) are any JSON and stay untyped. They are decoded all
the same, to find text that is not UTF-8. Their keys are sorted when they are written.
"""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from msgspec import UNSET, UnsetType

from dragoman.mappings.canonical.values import snake_case
from dragoman.mappings.pod.wire.values import I64, U16, U32, U64, CompletionKind, Counts, Segment, Wire
from dragoman.mappings.reflection import union_of

PodStatus = Literal["idle", "running", "paused"]
InvokeKind = Literal["user_send", "notify", "pod_event", "system_reminder", "wakeup"]
RunResult = Literal["finished", "paused", "limit_reached", "rolled_back"]
AlertSource = Literal["pod", "worker", "compactor", "agents_md"]
ErrorCode = Literal[
    "already_running",
    "not_running",
    "not_paused",
    "provider_error",
    "tool_error",
    "invalid_request",
    "internal",
]


class Greeting(Counts, frozen=True, kw_only=True):
    """The description of the pod, made once when it starts."""

    pod_name: str
    cwd: str
    provider: str
    model: str
    scope_summary: str
    tools: list[str]
    context_window: U64 = 0
    context_tokens: U64 = 0


class History(Wire, frozen=True, kw_only=True):
    """Content of `snapshot`; if an old pod omits the status, it is idle."""

    entries: list[object]
    greeting: Greeting
    status: PodStatus = "idle"


class Segments(Wire, frozen=True, kw_only=True):
    """Content of `user_message`."""

    segments: list[Segment]


class Item(Wire, frozen=True, kw_only=True):
    """Content of `system_item`."""

    item: object


class Invocation(Wire, frozen=True, kw_only=True):
    """Content of `invoke_start`."""

    kind: InvokeKind


class Turn(Counts, frozen=True, kw_only=True):
    """Content of `turn_start`."""

    turn: U64


class EndOfTurn(Counts, frozen=True, kw_only=True):
    """Content of `turn_end`."""

    turn: U64
    result: Literal["finished", "paused"]


class Call(Counts, frozen=True, kw_only=True):
    """Content of `llm_call_start` and `llm_call_end`."""

    llm_call: U64


class Retry(Counts, frozen=True, kw_only=True, omit_defaults=True):
    """Content of `llm_retry`."""

    llm_call: U64
    failed_attempt: U32
    max_attempts: U32
    wait_ms: U64
    elapsed_ms: U64
    status: U16 | None = None
    error: str


class Continuation(Counts, frozen=True, kw_only=True):
    """Content of `llm_continuation`."""

    llm_call: U64
    attempt: U32
    max_attempts: U32
    reason: str


class TextData(Wire, frozen=True, kw_only=True):
    """Content of the text and thinking events."""

    text: str


class NewCall(Wire, frozen=True, kw_only=True):
    """Content of `tool_call_start`."""

    id: str
    name: str


class Fragment(Wire, frozen=True, kw_only=True):
    """Content of `tool_call_args_delta`."""

    id: str
    json: str


class WholeCall(Wire, frozen=True, kw_only=True):
    """Content of `tool_call_done`; `arguments` is JSON text."""

    id: str
    name: str
    arguments: str


class Result(Wire, frozen=True, kw_only=True):
    """Content of `tool_result`."""

    id: str
    summary: str
    output: str | UnsetType | None = UNSET
    is_error: bool = False


class Tokens(Counts, frozen=True, kw_only=True):
    """Content of `usage`; a pod writes null for unknown counts here, and in no other typed message."""

    input_tokens: U64 | None = None
    output_tokens: U64 | None = None
    cache_read_input_tokens: U64 | UnsetType | None = UNSET


class RunEndData(Wire, frozen=True, kw_only=True):
    """Content of `run_end`."""

    result: RunResult


class Problem(Wire, frozen=True, kw_only=True):
    """Content of `error`."""

    code: ErrorCode
    message: str


class Rotation(Wire, frozen=True, kw_only=True):
    """Content of `segment_rotated`."""

    entry: object


class State(Wire, frozen=True, kw_only=True):
    """Content of `status`."""

    status: PodStatus


class CompletionEntry(Wire, frozen=True, kw_only=True):
    """A completion of the user's text."""

    value: str
    is_dir: bool = False


class CompletionList(Wire, frozen=True, kw_only=True):
    """Content of `completions`."""

    kind: CompletionKind
    entries: list[CompletionEntry]


class Pods(Wire, frozen=True, kw_only=True):
    """Content of `visible_pods`."""

    pods: list[object]


class Inspection(Wire, frozen=True, kw_only=True):
    """Content of `pod_inspection`."""

    pod: object


class Attachment(Wire, frozen=True, kw_only=True):
    """Content of `pod_attach_restore`."""

    result: object


class AlertData(Wire, frozen=True, kw_only=True):
    """Content of `alert`."""

    level: Literal["warn", "error"]
    source: AlertSource
    message: str
    timestamp_ms: I64


class MemoryReport(Wire, frozen=True, kw_only=True):
    """Content of `memory_worker`."""

    worker: str
    status: str
    run_id: str
    trigger: str
    reason: str
    message: str
    timestamp_ms: I64


class NewSegment(Wire, frozen=True, kw_only=True):
    """Content of `compact_done`."""

    new_segment_id: UUID


class CompactError(Wire, frozen=True, kw_only=True):
    """Content of `compact_failed`."""

    error: str


# -- events -----------------------------------------------------------------------------------------


class EventBase(Wire, frozen=True, kw_only=True, tag_field="event", tag=snake_case):
    """Base class of the events."""


class Snapshot(EventBase, frozen=True, kw_only=True):
    """The whole session, sent once, before any event but alerts."""

    data: History


class UserMessage(EventBase, frozen=True, kw_only=True):
    """The input of an accepted `run`, repeated for all clients."""

    data: Segments


class SystemItem(EventBase, frozen=True, kw_only=True):
    """A message of the system to the model."""

    data: Item


class InvokeStart(EventBase, frozen=True, kw_only=True):
    """A run began, with its reason."""

    data: Invocation


class TurnStart(EventBase, frozen=True, kw_only=True):
    """A model turn began."""

    data: Turn


class TurnEnd(EventBase, frozen=True, kw_only=True):
    """A model turn ended."""

    data: EndOfTurn


class LlmCallStart(EventBase, frozen=True, kw_only=True):
    """A request to the model was sent."""

    data: Call


class LlmCallEnd(EventBase, frozen=True, kw_only=True):
    """A request to the model ended."""

    data: Call


class LlmRetry(EventBase, frozen=True, kw_only=True):
    """A failed model call is retried."""

    data: Retry


class LlmContinuation(EventBase, frozen=True, kw_only=True):
    """The pod continues a model's output stream that broke off."""

    data: Continuation


class TextDelta(EventBase, frozen=True, kw_only=True):
    """A piece of the answer."""

    data: TextData


class TextDone(EventBase, frozen=True, kw_only=True):
    """A whole block of the answer."""

    data: TextData


class ThinkingStart(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """A reasoning block began."""

    data: None = None


class ThinkingDelta(EventBase, frozen=True, kw_only=True):
    """A piece of reasoning."""

    data: TextData


class ThinkingDone(EventBase, frozen=True, kw_only=True):
    """A whole reasoning block, which may be empty."""

    data: TextData


class ToolCallStart(EventBase, frozen=True, kw_only=True):
    """A tool call began."""

    data: NewCall


class ToolCallArgsDelta(EventBase, frozen=True, kw_only=True):
    """A fragment of a call's arguments."""

    data: Fragment


class ToolCallDone(EventBase, frozen=True, kw_only=True):
    """A call with all its arguments."""

    data: WholeCall


class ToolResult(EventBase, frozen=True, kw_only=True):
    """The result of a tool."""

    data: Result


class Usage(EventBase, frozen=True, kw_only=True):
    """The tokens that one model call used."""

    data: Tokens


class RunEnd(EventBase, frozen=True, kw_only=True):
    """A run ended; not sent if it failed."""

    data: RunEndData


class Error(EventBase, frozen=True, kw_only=True):
    """A failure or refusal."""

    data: Problem


class SegmentRotated(EventBase, frozen=True, kw_only=True):
    """A new segment replaced the history."""

    data: Rotation


class Status(EventBase, frozen=True, kw_only=True):
    """The status of the pod changed."""

    data: State


class Completions(EventBase, frozen=True, kw_only=True):
    """Answer to `list_completions`."""

    data: CompletionList


class VisiblePods(EventBase, frozen=True, kw_only=True):
    """Answer to `list_visible_pods`."""

    data: Pods


class PodInspection(EventBase, frozen=True, kw_only=True):
    """Answer to `inspect_pod`."""

    data: Inspection


class PodAttachRestore(EventBase, frozen=True, kw_only=True):
    """Answer to `attach_or_restore_pod`."""

    data: Attachment


class Alert(EventBase, frozen=True, kw_only=True):
    """A message for operators; replayed to late joiners."""

    data: AlertData


class MemoryWorker(EventBase, frozen=True, kw_only=True):
    """A report of a memory worker."""

    data: MemoryReport


class CompactStart(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """Compaction began."""

    data: None = None


class CompactDone(EventBase, frozen=True, kw_only=True):
    """Compaction succeeded."""

    data: NewSegment


class CompactFailed(EventBase, frozen=True, kw_only=True):
    """Compaction failed."""

    data: CompactError


class Shutdown(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """The pod shuts down."""

    data: None = None


Event = union_of(EventBase)
"""The union of all events."""
