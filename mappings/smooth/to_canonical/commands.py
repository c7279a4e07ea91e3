"""Rules from smooth actions to canonical commands. `session` and `request` stay as the client sent them.

The translator handles limits, blank fields and missing request ids. An empty value is kept in `ext` if the canonical
command does not distinguish it from an absent one.
"""

from __future__ import annotations

from msgspec import UNSET

from dragoman.mappings.canonical import Command, Commands, commands
from dragoman.mappings.canonical.values import FileAttachment, ImageAttachment, Segment, Text
from dragoman.mappings.extras import raw
from dragoman.mappings.rules import Rules
from dragoman.mappings.smooth.vocabulary import keep
from dragoman.mappings.smooth.wire import actions as wire
from dragoman.mappings.smooth.wire.values import ActionBase

TO_COMMAND = Rules[[], Command]("smooth -> canonical commands")


def _head(message: ActionBase, session: str | None = "", **kept: object) -> commands.CommandHead:
    """Return the fields that every command has; its `ext` keeps these fields of the action."""
    ext = keep(requestId="" if message.request_id == "" else UNSET, **kept)
    return commands.CommandHead(request=message.request_id or "", session=session or "", ext=ext)


def _if_empty(value: object) -> object:
    """Return the value if it is present but empty, so that `ext` keeps it; else UNSET."""
    return UNSET if value is None or value else value


def _if_given(value: object) -> object:
    return UNSET if value is None else value


@TO_COMMAND.rule(
    wire.CreateConversationSession,
    produces=(commands.OpenSession, commands.ResumeSession),
    ext=("browserFingerprint", "authContext"),
)
def create_conversation_session(message: wire.CreateConversationSession) -> Commands:
    head = _head(
        message,
        userName=_if_empty(message.user_name),
        userEmail=_if_empty(message.user_email),
        browserFingerprint=_if_given(message.browser_fingerprint),
        authContext=_if_given(message.auth_context),
        conversationId=_if_empty(message.conversation_id),
        supports=None if message.supports is None else UNSET,
    )
    opening = commands.OpenSession(
        agent=message.agent_id,
        user_name=message.user_name or "",
        user_email=message.user_email or "",
        supports=None if message.supports is None else tuple(message.supports),
        metadata=UNSET if message.metadata is None else raw(message.metadata),
        **head,
    )
    return (commands.resume_session(opening, message.conversation_id) if message.conversation_id else opening,)


@TO_COMMAND.rule(wire.GetSession, produces=(commands.GetSession,))
def get_session(message: wire.GetSession) -> Commands:
    return (commands.GetSession(**_head(message, message.session_id)),)


@TO_COMMAND.rule(wire.GetConversationMessages, produces=(commands.GetHistory,))
def get_conversation_messages(message: wire.GetConversationMessages) -> Commands:
    head = _head(message, message.session_id, limit=_if_empty(message.limit), cursor=_if_empty(message.cursor))
    return (commands.GetHistory(limit=message.limit or 0, cursor=message.cursor or "", **head),)


@TO_COMMAND.rule(wire.ListConversations, produces=(commands.ListSessions,))
def list_conversations(message: wire.ListConversations) -> Commands:
    head = _head(
        message, limit=_if_empty(message.limit), cursor=_if_empty(message.cursor), query=_if_empty(message.query)
    )
    return (
        commands.ListSessions(limit=message.limit or 0, cursor=message.cursor or "", query=message.query or "", **head),
    )


@TO_COMMAND.rule(wire.RenameConversation, produces=(commands.RenameSession,))
def rename_conversation(message: wire.RenameConversation) -> Commands:
    return (commands.RenameSession(title=message.title, **_head(message, message.conversation_id)),)


@TO_COMMAND.rule(wire.SendMessage, produces=(commands.SubmitInput,))
def send_message(message: wire.SendMessage) -> Commands:
    segments: list[Segment] = [Text(text=message.message)] if message.message else []
    segments += [ImageAttachment(url=image.url, detail=image.detail or "") for image in message.images or ()]
    segments += [
        FileAttachment(name=file.name, url=file.url, mime_type=file.mime_type or "") for file in message.files or ()
    ]
    head = _head(
        message,
        message.session_id,
        stream=_if_given(message.stream),
        skill=_if_given(message.skill),
        model=_if_empty(message.model),
        images=_if_empty(message.images),
        files=_if_empty(message.files),
    )
    return (commands.SubmitInput(segments=tuple(segments), model=message.model or "", **head),)


@TO_COMMAND.rule(wire.ConfirmToolAction, produces=(commands.AnswerApproval,))
def confirm_tool_action(message: wire.ConfirmToolAction) -> Commands:
    return (commands.AnswerApproval(approved=message.approved, **_head(message, message.session_id)),)


@TO_COMMAND.rule(wire.VerifyOtp, produces=(commands.AnswerOtp,))
def verify_otp(message: wire.VerifyOtp) -> Commands:
    return (commands.AnswerOtp(code=message.code, **_head(message, message.session_id)),)


@TO_COMMAND.rule(wire.SubmitInteraction, produces=(commands.AnswerInteraction,))
def submit_interaction(message: wire.SubmitInteraction) -> Commands:
    head = _head(message, message.session_id, kind=_if_empty(message.kind), declined=_if_empty(message.declined))
    answer = commands.AnswerInteraction(
        question=message.interaction_id,
        kind=message.kind or "",
        values=UNSET if message.values is None else raw(message.values),
        declined=message.declined or False,
        **head,
    )
    return (answer,)


@TO_COMMAND.rule(wire.Cancel, produces=(commands.CancelTurn,))
def cancel(message: wire.Cancel) -> Commands:
    return (commands.CancelTurn(**_head(message, message.session_id, sessionId=_if_empty(message.session_id))),)


@TO_COMMAND.rule(wire.Ping, produces=(commands.Ping,))
def ping(message: wire.Ping) -> Commands:
    return (commands.Ping(**_head(message)),)
