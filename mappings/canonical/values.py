"""The small values that canonical events, commands and states are made of.

Times are integer nanoseconds since the Unix epoch (docs/translation.md, rule 3.12). Ids of sessions, turns and
messages are UUID text; call ids and request ids are opaque text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Raw, Struct

Ext = dict[str, Raw]
"""Documented fields of the source dialect without a canonical place: `"DIALECT.field"` -> its JSON."""

Visibility = Literal["public", "reasoning", "internal"]
"""Who may see an event (docs/translation.md, rule 3.8). No rule may widen it."""

Status = Literal["idle", "running", "paused"]

End = Literal["completed", "limit_reached", "failed", "cancelled", "paused", "rolled_back"]
"""The six ways in which a turn ends (docs/translation.md, rule 3.6)."""

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
"""The one vocabulary of causes (docs/translation.md, rule 3.11); each dialect has a table to its own codes."""

Role = Literal["user", "assistant", "system"]


def snake_case(name: str) -> str:
    """`TextDelta` -> `text_delta`: the tag of a canonical struct."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


class Value(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A plain part of an event, command or state."""


# -- what a user says (docs/translation.md, rule 3.10) ----------------------------------------------


class SegmentBase(Value, frozen=True, kw_only=True, tag_field="type"):
    """Base of the segments: one piece of a user's input."""


class Text(SegmentBase, frozen=True, kw_only=True, tag="text"):
    """Plain text, typed."""

    text: str


class Paste(SegmentBase, frozen=True, kw_only=True, tag="paste"):
    """Text that was pasted; `chars` and `lines` are the client's own counts of it."""

    text: str
    id: int
    chars: int
    lines: int


class FileRef(SegmentBase, frozen=True, kw_only=True, tag="file_ref"):
    """A path that the backend is to read; as text `@path`."""

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
    """A segment whose kind the backend's dialect does not know (docs/dialects/pod.md, section 5)."""


Segment = Text | Paste | FileRef | KnowledgeRef | WorkflowInvoke | ImageAttachment | FileAttachment | UnknownSegment


def flatten(segments: Sequence[Segment]) -> str:
    """The segments as one string, by pod's own rule (docs/dialects/pod.md, section 5): no separators.

    Attachments and unknown segments have no text form and give nothing.
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


# -- what stands in a transcript --------------------------------------------------------------------


class ItemBase(Value, frozen=True, kw_only=True, tag_field="type"):
    """Base of the transcript's items. `at` is its time in ns, `turn` its turn ("" before any)."""

    at: int = 0
    turn: str = ""
    ext: Ext | None = None


class Message(ItemBase, frozen=True, kw_only=True, tag="message"):
    """What the user, the assistant or the system said. `text` is `segments` flattened, if there are any."""

    role: Role
    text: str
    id: str = ""
    segments: tuple[Segment, ...] = ()


class Reasoning(ItemBase, frozen=True, kw_only=True, tag="reasoning"):
    """What the model thought."""

    text: str


class ToolCall(ItemBase, frozen=True, kw_only=True, tag="tool_call"):
    """A call that the model made; `arguments` is JSON text."""

    call: str
    name: str
    arguments: str


class ToolResult(ItemBase, frozen=True, kw_only=True, tag="tool_result"):
    """What a tool gave back: a `summary`, an `output`, or both."""

    call: str
    name: str = ""
    summary: str | None = None
    output: str | None = None
    is_error: bool = False


Item = Message | Reasoning | ToolCall | ToolResult


# -- the rest ---------------------------------------------------------------------------------------


class Failure(Value, frozen=True, kw_only=True):
    """Why something failed: a cause of the common vocabulary and the text to show."""

    cause: Cause
    text: str
    ext: Ext | None = None


class Usage(Value, frozen=True, kw_only=True):
    """Tokens of one model call, or summed over a turn. None means that the backend did not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cost_usd: float | None = None


class Backend(Value, frozen=True, kw_only=True):
    """What a session knows of its backend; "" and 0 mean that it did not say."""

    name: str = ""
    model: str = ""
    provider: str = ""
    cwd: str = ""
    tools: tuple[str, ...] = ()
    ext: Ext | None = None


class Origin(Value, frozen=True, kw_only=True):
    """Who began a turn: a link of the gateway with its request id, or ("", "") for the backend."""

    link: str = ""
    request: str = ""


class SessionSummary(Value, frozen=True, kw_only=True):
    """One row of a list of sessions; `updated_at` in ns, `messages` counts user and assistant messages.

    `archived` says that it was put away, and is shown only where that is asked for.
    """

    session: str
    title: str = ""
    updated_at: int = 0
    messages: int = 0
    status: Status = "idle"
    archived: bool = False
    ext: Ext | None = None


class PastRun(Value, frozen=True, kw_only=True):
    """One run that a history tells of: the items `first` up to, and without, `last`.

    `end` is None while the run goes on, and where the history does not tell its end.
    """

    first: int
    last: int
    end: End | None = None
    failure: Failure | None = None


class Completion(Value, frozen=True, kw_only=True):
    """One completion of what the user types."""

    value: str
    is_dir: bool = False


class FieldError(Value, frozen=True, kw_only=True):
    """What is wrong with one field of an answered interaction."""

    field: str
    text: str
