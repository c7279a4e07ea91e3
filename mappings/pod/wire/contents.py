"""The contents of a pod's events: what stands in `data` (docs/dialects/pod.md, section 6, in its order).

Opaque values (`entries`, `item`, `entry`, `pods`, `pod`, `result`) are any JSON and stay untyped; they are decoded all
the same, because text in them that is not UTF-8 must be found, and their keys are sorted when they are written.
"""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from msgspec import UNSET, UnsetType

from dragoman.mappings.pod.wire.values import I64, U16, U32, U64, CompletionKind, Segment, Wire, check_u64

__all__ = [
    "AlertData",
    "AlertSource",
    "Attachment",
    "Call",
    "CompactError",
    "CompletionEntry",
    "CompletionList",
    "Continuation",
    "EndOfTurn",
    "ErrorCode",
    "Fragment",
    "Greeting",
    "History",
    "Inspection",
    "Invocation",
    "InvokeKind",
    "Item",
    "MemoryReport",
    "NewCall",
    "NewSegment",
    "PodStatus",
    "Pods",
    "Problem",
    "Result",
    "Retry",
    "Rotation",
    "RunEndData",
    "RunResult",
    "Segments",
    "State",
    "TextData",
    "Tokens",
    "Turn",
    "WholeCall",
]

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


class Greeting(Wire, frozen=True, kw_only=True):
    """Who the pod is; built once when it starts."""

    pod_name: str
    cwd: str
    provider: str
    model: str
    scope_summary: str
    tools: list[str]
    context_window: U64 = 0
    context_tokens: U64 = 0

    def __post_init__(self) -> None:
        check_u64(self.context_window, self.context_tokens)


class History(Wire, frozen=True, kw_only=True):
    """Content of `snapshot`; without a status (legacy) the pod is idle."""

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


class Turn(Wire, frozen=True, kw_only=True):
    """Content of `turn_start`."""

    turn: U64

    def __post_init__(self) -> None:
        check_u64(self.turn)


class EndOfTurn(Wire, frozen=True, kw_only=True):
    """Content of `turn_end`."""

    turn: U64
    result: Literal["finished", "paused"]

    def __post_init__(self) -> None:
        check_u64(self.turn)


class Call(Wire, frozen=True, kw_only=True):
    """Content of `llm_call_start` and `llm_call_end`."""

    llm_call: U64

    def __post_init__(self) -> None:
        check_u64(self.llm_call)


class Retry(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Content of `llm_retry`."""

    llm_call: U64
    failed_attempt: U32
    max_attempts: U32
    wait_ms: U64
    elapsed_ms: U64
    status: U16 | None = None
    error: str

    def __post_init__(self) -> None:
        check_u64(self.llm_call, self.wait_ms, self.elapsed_ms)


class Continuation(Wire, frozen=True, kw_only=True):
    """Content of `llm_continuation`."""

    llm_call: U64
    attempt: U32
    max_attempts: U32
    reason: str

    def __post_init__(self) -> None:
        check_u64(self.llm_call)


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


class Tokens(Wire, frozen=True, kw_only=True):
    """Content of `usage`; the only nulls that a pod emits in typed messages."""

    input_tokens: U64 | None = None
    output_tokens: U64 | None = None
    cache_read_input_tokens: U64 | UnsetType | None = UNSET

    def __post_init__(self) -> None:
        cached = self.cache_read_input_tokens
        check_u64(self.input_tokens, self.output_tokens, None if cached is UNSET else cached)


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
    """One completion."""

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
