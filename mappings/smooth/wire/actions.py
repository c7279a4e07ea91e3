"""Actions of a smooth client (docs/dialects/smooth.md, section 3).

Servers accept more than the schemas allow: codecs.py reads the other spellings, unknown keys are removed, and the
translator checks formats and lengths. The seed's key `before` for history pages is left out: every server ignores it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct

from dragoman.mappings.reflection import union_of
from dragoman.mappings.smooth.wire.values import ActionBase, Closed, Count


class AuthContext(Closed, frozen=True, kw_only=True):
    """The user's identity, as the web page that embeds the client states it (docs/dialects/smooth.md, section 7)."""

    user_id: str
    signature: str
    timestamp: int


class CreateConversationSession(ActionBase, frozen=True, kw_only=True, tag="create_conversation_session"):
    """Open a session; with `conversation_id`, resume that conversation."""

    agent_id: str
    user_name: str | None = None
    user_email: str | None = None
    browser_fingerprint: str | None = None
    metadata: dict[str, object] | None = None
    auth_context: AuthContext | None = None
    supports: list[str] | None = None
    conversation_id: str | None = None


class GetSession(ActionBase, frozen=True, kw_only=True, tag="get_session"):
    """Describe a session."""

    session_id: str


class GetConversationMessages(ActionBase, frozen=True, kw_only=True, tag="get_conversation_messages"):
    """Get one page of the history, newest first."""

    session_id: str
    limit: Count | None = None
    cursor: str | None = None


class ListConversations(ActionBase, frozen=True, kw_only=True, tag="list_conversations"):
    """List the user's conversations, newest first."""

    limit: Count | None = None
    cursor: str | None = None
    query: str | None = None


class RenameConversation(ActionBase, frozen=True, kw_only=True, tag="rename_conversation"):
    """Set the title of a conversation."""

    conversation_id: str
    title: str


class Image(Closed, frozen=True, kw_only=True):
    """An image by URL."""

    url: str
    detail: Literal["low", "high", "auto"] | None = None


class File(Closed, frozen=True, kw_only=True):
    """A file by URL."""

    name: Annotated[str, Meta(min_length=1, max_length=255)]
    url: str
    mime_type: str | None = None


class SendMessage(ActionBase, frozen=True, kw_only=True, tag="send_message"):
    """Send the user's input, which begins a turn. No server honours `stream`."""

    session_id: str
    message: str
    stream: bool | None = None
    model: str | None = None
    images: list[Image] | None = None
    files: list[File] | None = None
    skill: str | None = None


class Attachments(Struct, frozen=True):
    """The attachments of a `send_message`: URLs, also `data:` URLs, which make it longer than other actions."""

    action: Literal["send_message"]
    images: Raw = Raw(b"")
    files: Raw = Raw(b"")


class ConfirmToolAction(ActionBase, frozen=True, kw_only=True, tag="confirm_tool_action"):
    """Answer to write_confirmation_required."""

    session_id: str
    approved: bool


class VerifyOtp(ActionBase, frozen=True, kw_only=True, tag="verify_otp"):
    """Send the one-time code that the user typed."""

    session_id: str
    code: str


class SubmitInteraction(ActionBase, frozen=True, kw_only=True, tag="submit_interaction"):
    """Answer to interaction_required."""

    session_id: str
    interaction_id: str
    kind: str | None = None
    values: dict[str, object] | None = None
    declined: bool | None = None


class Cancel(ActionBase, frozen=True, kw_only=True, tag="cancel"):
    """Cancel this connection's turn; servers ignore the ids."""

    session_id: str | None = None


class Ping(ActionBase, frozen=True, kw_only=True, tag="ping"):
    """Check that the server is alive."""


AnyAction = union_of(ActionBase)
"""The union of all actions."""
