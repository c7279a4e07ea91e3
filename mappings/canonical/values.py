"""Small values that canonical events, commands and states consist of.

Times are integer nanoseconds since the Unix epoch (docs/translation.md, rule 3.12). Ids of sessions, turns and messages
are UUID text; call ids and request ids are opaque text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeGuard

from msgspec import Raw, Struct

COUNT_MAX = (1 << 63) - 1
"""The largest count that every dialect can write."""

Ext = dict[str, Raw]
"""Documented fields of the source dialect without a canonical counterpart: `"DIALECT.field"` -> JSON."""

UNBEGUN_TURN: Ext = {"gateway.unbegun": Raw(b"true")}
"""The `ext` of a ModelTurnStarted that the session adds to a turn that ended before its backend began it."""

Visibility = Literal["public", "reasoning", "internal"]
"""The readers that may see an event (docs/translation.md, rule 3.8). No rule may widen it."""

Status = Literal["idle", "running", "paused"]

End = Literal["completed", "limit_reached", "failed", "cancelled", "paused", "rolled_back"]
"""The six ways in which a turn ends (docs/translation.md, rule 3.6)."""

ANSWERED: frozenset[End] = frozenset(("completed", "limit_reached"))
"""The ends of a turn that has an answer."""

Cause = Literal[
    "invalid",
    "unsupported",
    "not_found",
    "busy",
    "not_running",
    "denied",
    "upstream_lost",
    "timeout",
    "too_large",
    "internal",
    "rate_limited",
    "model_failed",
    "tool_failed",
]
"""The causes of failures (docs/translation.md, rule 3.11); each dialect maps its own codes to them."""

Role = Literal["user", "assistant", "system"]


def snake_case(name: str) -> str:
    """Return the tag of a canonical struct: `TextDelta` -> `text_delta`."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


class Value(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Base class of the plain parts of events, commands and states."""


# -- segments of a user's input (docs/translation.md, rule 3.10) --------------------------------------


class SegmentBase(Value, frozen=True, kw_only=True, tag_field="type"):
    """Base class of the segments, the pieces of a user's input."""


class Text(SegmentBase, frozen=True, kw_only=True, tag="text"):
    """Typed text."""

    text: str


class Paste(SegmentBase, frozen=True, kw_only=True, tag="paste"):
    """Pasted text; `chars` and `lines` are the client's own counts."""

    text: str
    id: int
    chars: int
    lines: int


class FileRef(SegmentBase, frozen=True, kw_only=True, tag="file_ref"):
    """A path that the backend reads; as text `@path`."""

    path: str


class KnowledgeRef(SegmentBase, frozen=True, kw_only=True, tag="knowledge_ref"):
    """A knowledge entry by its slug; as text `#slug`."""

    slug: str


class WorkflowInvoke(SegmentBase, frozen=True, kw_only=True, tag="workflow_invoke"):
    """A workflow by its slug; as text `/slug`."""

    slug: str


class ImageAttachment(SegmentBase, frozen=True, kw_only=True, tag="image"):
    """An image by URL (smooth `images`)."""

    url: str
    detail: str = ""


class FileAttachment(SegmentBase, frozen=True, kw_only=True, tag="file"):
    """A file by URL (smooth `files`)."""

    name: str
    url: str
    mime_type: str = ""


class UnknownSegment(SegmentBase, frozen=True, kw_only=True, tag="unknown"):
    """A segment of a kind that the backend's dialect does not know (docs/dialects/pod.md, section 5)."""


Segment = Text | Paste | FileRef | KnowledgeRef | WorkflowInvoke | ImageAttachment | FileAttachment | UnknownSegment


def flatten(segments: Sequence[Segment]) -> str:
    """Return the segments as one string without separators, as a pod does it (docs/dialects/pod.md, section 5).

    Attachments and unknown segments have no text form.
    """
    parts: list[str] = []
    for segment in segments:
        if isinstance(segment, (Text, Paste)):
            parts.append(segment.text)
        elif isinstance(segment, FileRef):
            parts.append(f"@{segment.path}")
        elif isinstance(segment, KnowledgeRef):
            parts.append(f"#{segment.slug}")
        elif isinstance(segment, WorkflowInvoke):
            parts.append(f"/{segment.slug}")
    return "".join(parts)


def only_text(segments: Iterable[Segment]) -> bool:
    """Return True if all segments are typed text."""
    return {Text}.issuperset(map(type, segments))


def has_references(segments: Iterable[Segment]) -> bool:
    """Return True if the segments say more than their text and attachments: a reference, or that a text was pasted."""
    return not {Text, ImageAttachment, FileAttachment}.issuperset(map(type, segments))


def why_empty(segments: Sequence[Segment]) -> str:
    """Return the text of the refusal of an input without text."""
    has_unknown = any(isinstance(segment, UnknownSegment) for segment in segments)
    return "the input has only segments of unknown kinds" if has_unknown else "the input is empty"


def attachments(segments: Iterable[Segment]) -> list[Segment]:
    """Return the images and files by URL among the segments; they have no text form."""
    return [segment for segment in segments if isinstance(segment, ImageAttachment | FileAttachment)]


# -- items of a transcript --------------------------------------------------------------------------


class ItemBase(Value, frozen=True, kw_only=True, tag_field="type"):
    """Base class of the transcript's items; `at` is in ns, `turn` is "" before any turn."""

    at: int = 0
    turn: str = ""
    ext: Ext | None = None


class Message(ItemBase, frozen=True, kw_only=True, tag="message"):
    """A message of the user, the assistant or the system; `text` is the flattened `segments`, if there are any."""

    role: Role
    text: str
    id: str = ""
    segments: tuple[Segment, ...] = ()

    @property
    def system(self) -> bool:
        """True for a message of the system, so that a rule can declare that its dialect has no form for them."""
        return self.role == "system"


class Reasoning(ItemBase, frozen=True, kw_only=True, tag="reasoning"):
    """The model's reasoning."""

    text: str


class ToolCall(ItemBase, frozen=True, kw_only=True, tag="tool_call"):
    """A tool call of the model; `arguments` is JSON text."""

    call: str
    name: str
    arguments: str


class ToolResult(ItemBase, frozen=True, kw_only=True, tag="tool_result"):
    """The result of a tool: a `summary`, an `output`, or both."""

    call: str
    name: str = ""
    summary: str | None = None
    output: str | None = None
    is_error: bool = False


Item = Message | Reasoning | ToolCall | ToolResult


def is_chat_message(item: Item, *roles: Role) -> TypeGuard[Message]:
    """Return True if the item is a message of one of these roles, by default of the user or the assistant."""
    return isinstance(item, Message) and item.role in (roles or ("user", "assistant"))


def answers(items: Iterable[Item]) -> list[str]:
    """Return the texts of the assistant's messages."""
    return [item.text for item in items if is_chat_message(item, "assistant")]


def content_of(item: Item) -> tuple[type, str]:
    """Return the type of an item and its text or call id, which are equal in all copies of it."""
    return type(item), item.text if isinstance(item, Message | Reasoning) else item.call


# -- failures, usage, lists and completions ---------------------------------------------------------


class Failure(Value, frozen=True, kw_only=True):
    """A failure: its `cause` from the canonical set, and the text to show to the user."""

    cause: Cause
    text: str
    ext: Ext | None = None


class Usage(Value, frozen=True, kw_only=True):
    """Tokens of one model call, or summed over a turn. None means that the backend did not report them."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cost_usd: float | None = None


class BackendInfo(Value, frozen=True, kw_only=True):
    """The description of a session's backend; "" and 0 mean that it is not known."""

    name: str = ""
    model: str = ""
    provider: str = ""
    cwd: str = ""
    tools: tuple[str, ...] = ()
    ext: Ext | None = None


class Origin(Value, frozen=True, kw_only=True):
    """The link that began a turn, with its request id; ("", "") for the backend itself."""

    link: str = ""
    request: str = ""


class SessionSummary(Value, frozen=True, kw_only=True):
    """A row of a list of sessions; `updated_at` is in ns, `messages` counts user and assistant messages.

    Archived sessions are shown only if a client asks for them.
    """

    session: str
    title: str = ""
    updated_at: int = 0
    messages: int = 0
    status: Status = "idle"
    archived: bool = False
    ext: Ext | None = None


class PastRun(Value, frozen=True, kw_only=True):
    """A run in a history: the items from index `first` up to, but not including, `last`.

    `end` is None while the run is open, or if the history does not say how it ended.
    """

    first: int
    last: int
    end: End | None = None
    failure: Failure | None = None


class Completion(Value, frozen=True, kw_only=True):
    """A completion of the user's text."""

    value: str
    is_dir: bool = False


class FieldError(Value, frozen=True, kw_only=True):
    """The error of one field of an answered interaction."""

    field: str
    text: str
