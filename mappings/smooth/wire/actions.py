"""What a smooth client says (docs/dialects/smooth.md, section 3).

Servers are laxer than the schemas: further spellings are read through spellings.py, unknown keys are dropped, formats
and lengths are the translator's business. `before` of the seed's history paging is no key of this generation: every
server ignores it.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, Union

from msgspec import Meta

from dragoman.mappings.codec import Codec
from dragoman.mappings.smooth.wire.base import ActionBase, Closed
from dragoman.mappings.smooth.wire.spellings import usual_action

MAX_DEPTH = 512  # as for events: metadata and values are small forms


class AuthContext(Closed, frozen=True, kw_only=True):
    """Who the embedding page says the user is (docs/dialects/smooth.md, section 7)."""

    user_id: str
    signature: str
    timestamp: int


class CreateConversationSession(ActionBase, frozen=True, kw_only=True, tag="create_conversation_session"):
    """Open a session, or with `conversation_id` go on with a conversation."""

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
    """One page of the history, newest first."""

    session_id: str
    limit: int | None = None
    cursor: str | None = None


class ListConversations(ActionBase, frozen=True, kw_only=True, tag="list_conversations"):
    """The user's conversations, newest first."""

    limit: int | None = None
    cursor: str | None = None
    query: str | None = None


class RenameConversation(ActionBase, frozen=True, kw_only=True, tag="rename_conversation"):
    """Give a conversation a title."""

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
    """The user's input: begins a turn. `stream` is honoured by no server."""

    session_id: str
    message: str
    stream: bool | None = None
    model: str | None = None
    images: list[Image] | None = None
    files: list[File] | None = None
    skill: str | None = None


class ConfirmToolAction(ActionBase, frozen=True, kw_only=True, tag="confirm_tool_action"):
    """Answers write_confirmation_required."""

    session_id: str
    approved: bool


class VerifyOtp(ActionBase, frozen=True, kw_only=True, tag="verify_otp"):
    """The code that the user typed."""

    session_id: str
    code: str


class SubmitInteraction(ActionBase, frozen=True, kw_only=True, tag="submit_interaction"):
    """Answers interaction_required."""

    session_id: str
    interaction_id: str
    kind: str | None = None
    values: dict[str, object] | None = None
    declined: bool | None = None


class Cancel(ActionBase, frozen=True, kw_only=True, tag="cancel"):
    """End this connection's turn, whatever the ids say."""

    session_id: str | None = None


class Ping(ActionBase, frozen=True, kw_only=True, tag="ping"):
    """Are you there?"""


AnyAction: TypeAlias = Union[  # noqa: UP007  # in a list like the events
    CreateConversationSession,
    GetSession,
    GetConversationMessages,
    ListConversations,
    RenameConversation,
    SendMessage,
    ConfirmToolAction,
    VerifyOtp,
    SubmitInteraction,
    Cancel,
    Ping,
]

ACTIONS: Codec[AnyAction] = Codec("smooth", AnyAction, max_depth=MAX_DEPTH, reshape=usual_action)
