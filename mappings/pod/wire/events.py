"""Events that a pod sends to its clients (docs/dialects/pod.md, section 6, in its order).

Each event is `{"event": NAME, "data": CONTENT}`, with the keys in that order. CONTENT is the class `Data` of the event.

Opaque values (`entries`, `item`, `entry`, `pods`, `pod`, `result`) are any JSON and stay untyped. Their keys are sorted
when they are written. Each of the `entries` stays JSON until it is read, because there may be very many.
"""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from msgspec import UNSET, Raw, UnsetType

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


class Call(Counts, frozen=True, kw_only=True):
    """Content of `llm_call_start` and `llm_call_end`."""

    llm_call: U64


class TextData(Wire, frozen=True, kw_only=True):
    """Content of the text and thinking events."""

    text: str


class CompletionEntry(Wire, frozen=True, kw_only=True):
    """A completion of the user's text."""

    value: str
    is_dir: bool = False


# -- events -----------------------------------------------------------------------------------------


class EventBase(Wire, frozen=True, kw_only=True, tag_field="event", tag=snake_case):
    """Base class of the events."""


class Snapshot(EventBase, frozen=True, kw_only=True):
    """The whole session, sent once, before any event but alerts. If an old pod omits the status, it is idle."""

    class Data(Wire, frozen=True, kw_only=True):
        entries: list[Raw]
        greeting: Greeting
        status: PodStatus = "idle"

    data: Data


class UserMessage(EventBase, frozen=True, kw_only=True):
    """The input of an accepted `run`, repeated for all clients."""

    class Data(Wire, frozen=True, kw_only=True):
        segments: list[Segment]

    data: Data


class SystemItem(EventBase, frozen=True, kw_only=True):
    """A message of the system to the model."""

    class Data(Wire, frozen=True, kw_only=True):
        item: object

    data: Data


class InvokeStart(EventBase, frozen=True, kw_only=True):
    """A run began, with its reason."""

    class Data(Wire, frozen=True, kw_only=True):
        kind: InvokeKind

    data: Data


class TurnStart(EventBase, frozen=True, kw_only=True):
    """A model turn began."""

    class Data(Counts, frozen=True, kw_only=True):
        turn: U64

    data: Data


class TurnEnd(EventBase, frozen=True, kw_only=True):
    """A model turn ended."""

    class Data(Counts, frozen=True, kw_only=True):
        turn: U64
        result: Literal["finished", "paused"]

    data: Data


class LlmCallStart(EventBase, frozen=True, kw_only=True):
    """A request to the model was sent."""

    data: Call


class LlmCallEnd(EventBase, frozen=True, kw_only=True):
    """A request to the model ended."""

    data: Call


class LlmRetry(EventBase, frozen=True, kw_only=True):
    """A failed model call is retried."""

    class Data(Counts, frozen=True, kw_only=True, omit_defaults=True):
        llm_call: U64
        failed_attempt: U32
        max_attempts: U32
        wait_ms: U64
        elapsed_ms: U64
        status: U16 | None = None
        error: str

    data: Data


class LlmContinuation(EventBase, frozen=True, kw_only=True):
    """The pod continues a model's output stream that broke off."""

    class Data(Counts, frozen=True, kw_only=True):
        llm_call: U64
        attempt: U32
        max_attempts: U32
        reason: str

    data: Data


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

    class Data(Wire, frozen=True, kw_only=True):
        id: str
        name: str

    data: Data


class ToolCallArgsDelta(EventBase, frozen=True, kw_only=True):
    """A fragment of a call's arguments."""

    class Data(Wire, frozen=True, kw_only=True):
        id: str
        json: str

    data: Data


class ToolCallDone(EventBase, frozen=True, kw_only=True):
    """A call with all its arguments, as JSON text."""

    class Data(Wire, frozen=True, kw_only=True):
        id: str
        name: str
        arguments: str

    data: Data


class ToolResult(EventBase, frozen=True, kw_only=True):
    """The result of a tool."""

    class Data(Wire, frozen=True, kw_only=True):
        id: str
        summary: str
        output: str | UnsetType | None = UNSET
        is_error: bool = False

    data: Data


class Usage(EventBase, frozen=True, kw_only=True):
    """The tokens that one model call used. A pod writes null for unknown counts here, and in no other typed message."""

    class Data(Counts, frozen=True, kw_only=True):
        input_tokens: U64 | None = None
        output_tokens: U64 | None = None
        cache_read_input_tokens: U64 | UnsetType | None = UNSET

    data: Data


class RunEnd(EventBase, frozen=True, kw_only=True):
    """A run ended; not sent if it failed."""

    class Data(Wire, frozen=True, kw_only=True):
        result: RunResult

    data: Data


class Error(EventBase, frozen=True, kw_only=True):
    """A failure or refusal."""

    class Data(Wire, frozen=True, kw_only=True):
        code: ErrorCode
        message: str

    data: Data


class SegmentRotated(EventBase, frozen=True, kw_only=True):
    """A new segment replaced the history."""

    class Data(Wire, frozen=True, kw_only=True):
        entry: object

    data: Data


class Status(EventBase, frozen=True, kw_only=True):
    """The status of the pod changed."""

    class Data(Wire, frozen=True, kw_only=True):
        status: PodStatus

    data: Data


class Completions(EventBase, frozen=True, kw_only=True):
    """Answer to `list_completions`."""

    class Data(Wire, frozen=True, kw_only=True):
        kind: CompletionKind
        entries: list[CompletionEntry]

    data: Data


class VisiblePods(EventBase, frozen=True, kw_only=True):
    """Answer to `list_visible_pods`."""

    class Data(Wire, frozen=True, kw_only=True):
        pods: list[object]

    data: Data


class PodInspection(EventBase, frozen=True, kw_only=True):
    """Answer to `inspect_pod`."""

    class Data(Wire, frozen=True, kw_only=True):
        pod: object

    data: Data


class PodAttachRestore(EventBase, frozen=True, kw_only=True):
    """Answer to `attach_or_restore_pod`."""

    class Data(Wire, frozen=True, kw_only=True):
        result: object

    data: Data


class Alert(EventBase, frozen=True, kw_only=True):
    """A message for operators; replayed to late joiners."""

    class Data(Wire, frozen=True, kw_only=True):
        level: Literal["warn", "error"]
        source: AlertSource
        message: str
        timestamp_ms: I64

    data: Data


class MemoryWorker(EventBase, frozen=True, kw_only=True):
    """A report of a memory worker."""

    class Data(Wire, frozen=True, kw_only=True):
        worker: str
        status: str
        run_id: str
        trigger: str
        reason: str
        message: str
        timestamp_ms: I64

    data: Data


class CompactStart(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """Compaction began."""

    data: None = None


class CompactDone(EventBase, frozen=True, kw_only=True):
    """Compaction succeeded."""

    class Data(Wire, frozen=True, kw_only=True):
        new_segment_id: UUID

    data: Data


class CompactFailed(EventBase, frozen=True, kw_only=True):
    """Compaction failed."""

    class Data(Wire, frozen=True, kw_only=True):
        error: str

    data: Data


class Shutdown(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """The pod shuts down."""

    data: None = None


Event = union_of(EventBase)
"""The union of all events."""
