"""Rules from smooth actions to canonical commands. `session` and `request` stay as the client sent them.

The translator handles limits, blank fields and missing request ids. An empty value is kept in `ext` if the canonical
command does not distinguish it from an absent one.
"""

from __future__ import annotations

from msgspec import UNSET

from dragoman.mappings.canonical import commands
from dragoman.mappings.canonical.values import Ext, FileAttachment, ImageAttachment, Segment, Text
from dragoman.mappings.extras import raw
from dragoman.mappings.rules import Rules
from dragoman.mappings.smooth.vocabulary import keep
from dragoman.mappings.smooth.wire import actions as wire
from dragoman.mappings.smooth.wire.values import ActionBase

TO_COMMAND = Rules[[], commands.Command]("smooth -> canonical commands")


def _keep(action: ActionBase, **fields: object) -> Ext | None:
    return keep(requestId="" if action.request_id == "" else UNSET, **fields)


def _if_empty(value: object) -> object:
    """Return the value if it is present but empty, so that `ext` keeps it; else UNSET."""
    return UNSET if value is None or value else value


def _if_given(value: object) -> object:
    """Return the value, UNSET if it is None."""
    return UNSET if value is None else value


@TO_COMMAND.rule(wire.CreateConversationSession, produces=(commands.OpenSession, commands.ResumeSession))
def create_conversation_session(action: wire.CreateConversationSession) -> tuple[commands.Command, ...]:
    ext = _keep(
        action,
        userName=_if_empty(action.user_name),
        userEmail=_if_empty(action.user_email),
        browserFingerprint=_if_given(action.browser_fingerprint),
        authContext=_if_given(action.auth_context),
        conversationId=_if_empty(action.conversation_id),
        supports=None if action.supports is None else UNSET,
    )
    opening = commands.OpenSession(
        request=action.request_id or "",
        agent=action.agent_id,
        user_name=action.user_name or "",
        user_email=action.user_email or "",
        supports=None if action.supports is None else tuple(action.supports),
        metadata=UNSET if action.metadata is None else raw(action.metadata),
        ext=ext,
    )
    return (commands.resume_session(opening, action.conversation_id) if action.conversation_id else opening,)


@TO_COMMAND.rule(wire.GetSession, produces=(commands.GetSession,))
def get_session(action: wire.GetSession) -> tuple[commands.Command, ...]:
    return (commands.GetSession(request=action.request_id or "", session=action.session_id, ext=_keep(action)),)


@TO_COMMAND.rule(wire.GetConversationMessages, produces=(commands.GetHistory,))
def get_conversation_messages(action: wire.GetConversationMessages) -> tuple[commands.Command, ...]:
    history = commands.GetHistory(
        request=action.request_id or "",
        session=action.session_id,
        limit=action.limit or 0,
        cursor=action.cursor or "",
        ext=_keep(action, limit=_if_empty(action.limit), cursor=_if_empty(action.cursor)),
    )
    return (history,)


@TO_COMMAND.rule(wire.ListConversations, produces=(commands.ListSessions,))
def list_conversations(action: wire.ListConversations) -> tuple[commands.Command, ...]:
    ext = _keep(action, limit=_if_empty(action.limit), cursor=_if_empty(action.cursor), query=_if_empty(action.query))
    listing = commands.ListSessions(
        request=action.request_id or "",
        limit=action.limit or 0,
        cursor=action.cursor or "",
        query=action.query or "",
        ext=ext,
    )
    return (listing,)


@TO_COMMAND.rule(wire.RenameConversation, produces=(commands.RenameSession,))
def rename_conversation(action: wire.RenameConversation) -> tuple[commands.Command, ...]:
    renaming = commands.RenameSession(
        request=action.request_id or "", session=action.conversation_id, title=action.title, ext=_keep(action)
    )
    return (renaming,)


@TO_COMMAND.rule(wire.SendMessage, produces=(commands.SubmitInput,))
def send_message(action: wire.SendMessage) -> tuple[commands.Command, ...]:
    segments: list[Segment] = [Text(text=action.message)] if action.message else []
    segments += [ImageAttachment(url=image.url, detail=image.detail or "") for image in action.images or ()]
    segments += [
        FileAttachment(name=file.name, url=file.url, mime_type=file.mime_type or "") for file in action.files or ()
    ]
    ext = _keep(
        action,
        stream=_if_given(action.stream),
        skill=_if_given(action.skill),
        model=_if_empty(action.model),
        images=_if_empty(action.images),
        files=_if_empty(action.files),
    )
    submitting = commands.SubmitInput(
        request=action.request_id or "",
        session=action.session_id,
        segments=tuple(segments),
        model=action.model or "",
        ext=ext,
    )
    return (submitting,)


@TO_COMMAND.rule(wire.ConfirmToolAction, produces=(commands.AnswerApproval,))
def confirm_tool_action(action: wire.ConfirmToolAction) -> tuple[commands.Command, ...]:
    answer = commands.AnswerApproval(
        request=action.request_id or "", session=action.session_id, approved=action.approved, ext=_keep(action)
    )
    return (answer,)


@TO_COMMAND.rule(wire.VerifyOtp, produces=(commands.AnswerOtp,))
def verify_otp(action: wire.VerifyOtp) -> tuple[commands.Command, ...]:
    answer = commands.AnswerOtp(
        request=action.request_id or "", session=action.session_id, code=action.code, ext=_keep(action)
    )
    return (answer,)


@TO_COMMAND.rule(wire.SubmitInteraction, produces=(commands.AnswerInteraction,))
def submit_interaction(action: wire.SubmitInteraction) -> tuple[commands.Command, ...]:
    answer = commands.AnswerInteraction(
        request=action.request_id or "",
        session=action.session_id,
        question=action.interaction_id,
        kind=action.kind or "",
        values=UNSET if action.values is None else raw(action.values),
        declined=action.declined or False,
        ext=_keep(action, kind=_if_empty(action.kind), declined=_if_empty(action.declined)),
    )
    return (answer,)


@TO_COMMAND.rule(wire.Cancel, produces=(commands.CancelTurn,))
def cancel(action: wire.Cancel) -> tuple[commands.Command, ...]:
    ext = _keep(action, sessionId=_if_empty(action.session_id))
    return (commands.CancelTurn(request=action.request_id or "", session=action.session_id or "", ext=ext),)


@TO_COMMAND.rule(wire.Ping, produces=(commands.Ping,))
def ping(action: wire.Ping) -> tuple[commands.Command, ...]:
    return (commands.Ping(request=action.request_id or "", ext=_keep(action)),)
