"""The conversation in the result of `thread/read` since 0.10.2 (docs/dialects/codewhale.md, section 12).

Its messages have the form of a model API: a role, and text or content blocks. The name of a class is that of the block.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct


class ModelMessage(Struct, frozen=True, gc=False):
    """A message of a saved session, or an item in the `history` of a client's resume; `content` is text or blocks."""

    role: str = ""
    content: Any = None


class ImageUrlContent(Struct, frozen=True, gc=False):
    """The address of an image, often a `data:` URL."""

    url: str


class ImageUrl(Struct, frozen=True, gc=False, tag="image_url"):
    """A content block with an image of the user."""

    image_url: ImageUrlContent


class Thinking(Struct, frozen=True, gc=False, tag="thinking"):
    """A content block with a thought of the model."""

    thinking: str


class ToolUse(Struct, frozen=True, gc=False, tag="tool_use"):
    """A content block with a tool call of the model; `input` is the JSON of its arguments."""

    id: str
    name: str
    input: Raw


class ToolResult(Struct, frozen=True, gc=False, tag="tool_result"):
    """A content block with the result of the tool call `tool_use_id`."""

    tool_use_id: str
    content: str
    is_error: bool | None = None


ContentBlock = ImageUrl | Thinking | ToolUse | ToolResult
"""A content block that is no text, and that the gateway reads."""


class SavedSession(Struct, frozen=True, gc=False):
    """The member `session` of a snapshot: the messages of a thread, oldest first."""

    messages: tuple[ModelMessage, ...]


class Snapshot(Struct, frozen=True, gc=False):
    """The member `history` of a thread's `data`."""

    session: SavedSession


class SavedItem(Struct, frozen=True, gc=False):
    """An item of a turn: an input or an answer among them; `started_at` is its time (RFC 3339)."""

    kind: str = ""
    detail: str | None = None
    started_at: str | None = None


class SavedThreadData(Struct, frozen=True, gc=False):
    """The `data` of a thread with its saved session and the items of its turns."""

    history: Snapshot
    items: tuple[SavedItem, ...] = ()
