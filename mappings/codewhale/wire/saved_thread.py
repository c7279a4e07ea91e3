"""The conversation in the result of `thread/read` since 0.10.2 (docs/dialects/codewhale.md, section 12).

The items of the turns are the conversation that clients are shown. The saved session is what the model is sent: roles
with text or content blocks. The class of a content block has the block's name.
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


class SavedSession(Struct, frozen=True, gc=False):
    """The member `session` of a snapshot: the messages that the model is sent, oldest first."""

    messages: tuple[ModelMessage, ...]


class Snapshot(Struct, frozen=True, gc=False):
    """The member `history` of a thread's `data`."""

    session: SavedSession


class ItemMetadata(Struct, frozen=True, gc=False):
    """The members of an item's metadata that tell a tool call, its result, or an input that no user has typed."""

    tool_use_id: str = ""
    tool_name: str = ""
    tool_input: str | None = None
    tool_result_for: str = ""
    is_error: bool | None = None
    input_provenance: str = ""


class SavedItem(Struct, frozen=True, gc=False):
    """An item of a turn; `started_at` is its time (RFC 3339), `metadata` mostly ItemMetadata with further members."""

    kind: str = ""
    status: str = ""
    detail: str | None = None
    metadata: Raw = Raw(b"null")
    started_at: str | None = None


class SavedThreadData(Struct, frozen=True, gc=False):
    """The `data` of a thread with its saved session and the items of its turns."""

    history: Snapshot
    items: tuple[SavedItem, ...] = ()
