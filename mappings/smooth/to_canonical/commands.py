"""Rules from smooth actions to canonical commands. `session` and `request` stay as the client sent them.

The translator handles limits, blank fields and missing request ids. An empty value is kept in `ext` if the canonical
command does not distinguish it from an absent one.
"""

from __future__ import annotations

from msgspec import UNSET

from dragoman.mappings.canonical import commands
from dragoman.mappings.canonical.values import FileAttachment, ImageAttachment, Segment, Text
from dragoman.mappings.extras import raw
from dragoman.mappings.rules import Rules
from dragoman.mappings.smooth.vocabulary import keep
from dragoman.mappings.smooth.wire import actions as wire
from dragoman.mappings.smooth.wire.values import ActionBase

TO_COMMAND = Rules[[], commands.Command]("smooth -> canonical commands")


Commands = tuple[commands.Command, ...]


def _head(action: ActionBase, session: str | None = "", **kept: object) -> commands.CommandHead:
    """Return the fields that every command has; its `ext` keeps these fields of the action."""
    ext = keep(requestId="" if action.request_id == "" else UNSET, **kept)
    return commands.CommandHead(request=action.request_id or "", session=session or "", ext=ext)


def _if_empty(value: object) -> object:
    """Return the value if it is present but empty, so that `ext` keeps it; else UNSET."""
    return UNSET if value is None or value else value


def _if_given(value: object) -> object:
    """Return the value, UNSET if it is None."""
    return UNSET if value is None else value


@TO_COMMAND.rule(wire.CreateConversationSession, produces=(commands.OpenSession, commands.ResumeSession))
def create_conversation_session(action: wire.CreateConversationSession) -> Commands:
    head = _head(
        action,
        userName=_if_empty(action.user_name),
        userEmail=_if_empty(action.user_email),
        browserFingerprint=_if_given(action.browser_fingerprint),
        authContext=_if_given(action.auth_context),
        conversationId=_if_empty(action.conversation_id),
        supports=None if action.supports is None else UNSET,
    )
    opening = commands.OpenSession(
        agent=action.agent_id,
        user_name=action.user_name or "",
        user_email=action.user_email or "",
        supports=None if action.supports is None else tuple(action.supports),
        metadata=UNSET if action.metadata is None else raw(action.metadata),
        **head,
    )
    return (commands.resume_session(opening, action.conversation_id) if action.conversation_id else opening,)


@TO_COMMAND.rule(wire.GetSession, produces=(commands.GetSession,))
def get_session(action: wire.GetSession) -> Commands:
    return (commands.GetSession(**_head(action, action.session_id)),)


@TO_COMMAND.rule(wire.GetConversationMessages, produces=(commands.GetHistory,))
def get_conversation_messages(action: wire.GetConversationMessages) -> Commands:
    head = _head(action, action.session_id, limit=_if_empty(action.limit), cursor=_if_empty(action.cursor))
    return (commands.GetHistory(limit=action.limit or 0, cursor=action.cursor or "", **head),)


@TO_COMMAND.rule(wire.ListConversations, produces=(commands.ListSessions,))
def list_conversations(action: wire.ListConversations) -> Commands:
    head = _head(action, limit=_if_empty(action.limit), cursor=_if_empty(action.cursor), query=_if_empty(action.query))
    return (
        commands.ListSessions(limit=action.limit or 0, cursor=action.cursor or "", query=action.query or "", **head),
    )


@TO_COMMAND.rule(wire.RenameConversation, produces=(commands.RenameSession,))
def rename_conversation(action: wire.RenameConversation) -> Commands:
    return (commands.RenameSession(title=action.title, **_head(action, action.conversation_id)),)


@TO_COMMAND.rule(wire.SendMessage, produces=(commands.SubmitInput,))
def send_message(action: wire.SendMessage) -> Commands:
    segments: list[Segment] = [Text(text=action.message)] if action.message else []
    segments += [ImageAttachment(url=image.url, detail=image.detail or "") for image in action.images or ()]
    segments += [
        FileAttachment(name=file.name, url=file.url, mime_type=file.mime_type or "") for file in action.files or ()
    ]
    head = _head(
        action,
        action.session_id,
        stream=_if_given(action.stream),
        skill=_if_given(action.skill),
        model=_if_empty(action.model),
        images=_if_empty(action.images),
        files=_if_empty(action.files),
    )
    return (commands.SubmitInput(segments=tuple(segments), model=action.model or "", **head),)


@TO_COMMAND.rule(wire.ConfirmToolAction, produces=(commands.AnswerApproval,))
def confirm_tool_action(action: wire.ConfirmToolAction) -> Commands:
    return (commands.AnswerApproval(approved=action.approved, **_head(action, action.session_id)),)


@TO_COMMAND.rule(wire.VerifyOtp, produces=(commands.AnswerOtp,))
def verify_otp(action: wire.VerifyOtp) -> Commands:
    return (commands.AnswerOtp(code=action.code, **_head(action, action.session_id)),)


@TO_COMMAND.rule(wire.SubmitInteraction, produces=(commands.AnswerInteraction,))
def submit_interaction(action: wire.SubmitInteraction) -> Commands:
    head = _head(action, action.session_id, kind=_if_empty(action.kind), declined=_if_empty(action.declined))
    answer = commands.AnswerInteraction(
        question=action.interaction_id,
        kind=action.kind or "",
        values=UNSET if action.values is None else raw(action.values),
        declined=action.declined or False,
        **head,
    )
    return (answer,)


@TO_COMMAND.rule(wire.Cancel, produces=(commands.CancelTurn,))
def cancel(action: wire.Cancel) -> Commands:
    return (commands.CancelTurn(**_head(action, action.session_id, sessionId=_if_empty(action.session_id))),)


@TO_COMMAND.rule(wire.Ping, produces=(commands.Ping,))
def ping(action: wire.Ping) -> Commands:
    return (commands.Ping(**_head(action)),)
