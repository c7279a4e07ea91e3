"""What a pod says to its clients (docs/dialects/pod.md, section 6): `{"event": NAME, "data": CONTENT}`, in that
order.
"""

from __future__ import annotations

from typing import Union

from dragoman.mappings.canonical.values import snake_case
from dragoman.mappings.pod.wire.contents import (
    AlertData,
    Attachment,
    Call,
    CompactError,
    CompletionList,
    Continuation,
    EndOfTurn,
    Fragment,
    History,
    Inspection,
    Invocation,
    Item,
    MemoryReport,
    NewCall,
    NewSegment,
    Pods,
    Problem,
    Result,
    Retry,
    Rotation,
    RunEndData,
    Segments,
    State,
    TextData,
    Tokens,
    Turn,
    WholeCall,
)
from dragoman.mappings.pod.wire.values import Wire

__all__ = [
    "Alert",
    "CompactDone",
    "CompactFailed",
    "CompactStart",
    "Completions",
    "Error",
    "Event",
    "InvokeStart",
    "LlmCallEnd",
    "LlmCallStart",
    "LlmContinuation",
    "LlmRetry",
    "MemoryWorker",
    "PodAttachRestore",
    "PodInspection",
    "RunEnd",
    "SegmentRotated",
    "Shutdown",
    "Snapshot",
    "Status",
    "SystemItem",
    "TextDelta",
    "TextDone",
    "ThinkingDelta",
    "ThinkingDone",
    "ThinkingStart",
    "ToolCallArgsDelta",
    "ToolCallDone",
    "ToolCallStart",
    "ToolResult",
    "TurnEnd",
    "TurnStart",
    "Usage",
    "UserMessage",
    "VisiblePods",
]


class EventBase(Wire, frozen=True, kw_only=True, tag_field="event", tag=snake_case):
    """Base of the events."""


class Snapshot(EventBase, frozen=True, kw_only=True):
    """The whole session; once, before any event but alerts."""

    data: History


class UserMessage(EventBase, frozen=True, kw_only=True):
    """Echo of an accepted run."""

    data: Segments


class SystemItem(EventBase, frozen=True, kw_only=True):
    """The system said something to the model."""

    data: Item


class InvokeStart(EventBase, frozen=True, kw_only=True):
    """Why a run began."""

    data: Invocation


class TurnStart(EventBase, frozen=True, kw_only=True):
    """A model turn began."""

    data: Turn


class TurnEnd(EventBase, frozen=True, kw_only=True):
    """A model turn is over."""

    data: EndOfTurn


class LlmCallStart(EventBase, frozen=True, kw_only=True):
    """A request to the model went out."""

    data: Call


class LlmCallEnd(EventBase, frozen=True, kw_only=True):
    """A request to the model is over."""

    data: Call


class LlmRetry(EventBase, frozen=True, kw_only=True):
    """A model call is tried again."""

    data: Retry


class LlmContinuation(EventBase, frozen=True, kw_only=True):
    """A broken model stream is taken up again."""

    data: Continuation


class TextDelta(EventBase, frozen=True, kw_only=True):
    """More of the answer."""

    data: TextData


class TextDone(EventBase, frozen=True, kw_only=True):
    """A whole block of the answer."""

    data: TextData


class ThinkingStart(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """The model began to think."""

    data: None = None


class ThinkingDelta(EventBase, frozen=True, kw_only=True):
    """More of a thought."""

    data: TextData


class ThinkingDone(EventBase, frozen=True, kw_only=True):
    """A whole thought; may be empty."""

    data: TextData


class ToolCallStart(EventBase, frozen=True, kw_only=True):
    """A tool call began."""

    data: NewCall


class ToolCallArgsDelta(EventBase, frozen=True, kw_only=True):
    """More of a call's arguments."""

    data: Fragment


class ToolCallDone(EventBase, frozen=True, kw_only=True):
    """A call with all its arguments."""

    data: WholeCall


class ToolResult(EventBase, frozen=True, kw_only=True):
    """What a tool gave back."""

    data: Result


class Usage(EventBase, frozen=True, kw_only=True):
    """What one model call used."""

    data: Tokens


class RunEnd(EventBase, frozen=True, kw_only=True):
    """A run is over; not sent when it fails."""

    data: RunEndData


class Error(EventBase, frozen=True, kw_only=True):
    """Something failed or was refused."""

    data: Problem


class SegmentRotated(EventBase, frozen=True, kw_only=True):
    """The history was replaced by that of a new segment."""

    data: Rotation


class Status(EventBase, frozen=True, kw_only=True):
    """The pod changed its state."""

    data: State


class Completions(EventBase, frozen=True, kw_only=True):
    """Answers `list_completions`."""

    data: CompletionList


class VisiblePods(EventBase, frozen=True, kw_only=True):
    """Answers `list_visible_pods`."""

    data: Pods


class PodInspection(EventBase, frozen=True, kw_only=True):
    """Answers `inspect_pod`."""

    data: Inspection


class PodAttachRestore(EventBase, frozen=True, kw_only=True):
    """Answers `attach_or_restore_pod`."""

    data: Attachment


class Alert(EventBase, frozen=True, kw_only=True):
    """Something an operator should know; replayed to late joiners."""

    data: AlertData


class MemoryWorker(EventBase, frozen=True, kw_only=True):
    """A memory worker reports."""

    data: MemoryReport


class CompactStart(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """Compaction began."""

    data: None = None


class CompactDone(EventBase, frozen=True, kw_only=True):
    """Compaction went well."""

    data: NewSegment


class CompactFailed(EventBase, frozen=True, kw_only=True):
    """Compaction failed."""

    data: CompactError


class Shutdown(EventBase, frozen=True, kw_only=True, omit_defaults=True):
    """The pod ends."""

    data: None = None


Event = Union[  # noqa: UP007  # thirty-four names read better in a list than joined by bars
    Snapshot,
    UserMessage,
    SystemItem,
    InvokeStart,
    TurnStart,
    TurnEnd,
    LlmCallStart,
    LlmCallEnd,
    LlmRetry,
    LlmContinuation,
    TextDelta,
    TextDone,
    ThinkingStart,
    ThinkingDelta,
    ThinkingDone,
    ToolCallStart,
    ToolCallArgsDelta,
    ToolCallDone,
    ToolResult,
    Usage,
    RunEnd,
    Error,
    SegmentRotated,
    Status,
    Completions,
    VisiblePods,
    PodInspection,
    PodAttachRestore,
    Alert,
    MemoryWorker,
    CompactStart,
    CompactDone,
    CompactFailed,
    Shutdown,
]
