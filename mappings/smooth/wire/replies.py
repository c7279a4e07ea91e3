"""The `data` of an immediate_response (docs/dialects/smooth.md, sections 3 and 5).

These structs are written exactly as the strict schemas require. When they are read, unknown keys are ignored, because
servers add keys (history records of server R) or omit some (get_session of server T).
"""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from msgspec import UNSET, Raw, Struct, UnsetType, field

AGENT_NAME = "smooth-agent"
"""The name of the agent on every reference server."""


SessionStatus = Literal["active", "idle", "ended"]


class Payload(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, rename="camel"):
    """Base class of the payloads."""


class Session(Payload, frozen=True, kw_only=True):
    """Answer to create_conversation_session and get_session; only the latter has `thread_id` and `status`."""

    session_id: str
    conversation_id: str
    agent_id: str | None = None
    agent_name: str = ""
    user_participant_id: str = ""
    agent_participant_id: str = ""
    thread_id: str | None = None
    status: SessionStatus | None = None


class ContentItem(Payload, frozen=True, kw_only=True):
    """A piece of a stored message, as server R sends it: text, or an image that the user attached."""

    type: str = ""
    text: str = ""
    url: str = ""


class Content(Payload, frozen=True, kw_only=True):
    """The text of a message; server R sends it in `items`."""

    text: str | None = None
    items: list[ContentItem] | None = None
    structured_response: Raw | UnsetType = UNSET


class Record(Payload, frozen=True, kw_only=True):
    """A message of the history; `inbound` is the user's."""

    id: str
    direction: Literal["inbound", "outbound"]
    content: Content
    sender: Raw | UnsetType = field(default=UNSET, name="from")
    to: Raw | UnsetType = UNSET
    created_at: str


class Participant(Payload, frozen=True, kw_only=True):
    """The sender or recipient of a message. Strict clients refuse a page with another id."""

    id: UUID
    type: str
    name: str | None = None


class Page(Payload, frozen=True, kw_only=True):
    """A page of the history, newest first. `next_cursor` is an explicit null on the last page."""

    messages: list[Record]
    next_cursor: str | UnsetType | None = UNSET
    has_more: bool | UnsetType = UNSET


class Conversation(Payload, frozen=True, kw_only=True):
    """A row of the list of conversations."""

    conversation_id: str
    title: str
    updated_at: str
    message_count: int


class Conversations(Payload, frozen=True, kw_only=True):
    """The list of conversations, newest first; it has pages only in the HEAD generation."""

    conversations: list[Conversation]
    next_cursor: str | UnsetType | None = UNSET
    has_more: bool | UnsetType = UNSET
