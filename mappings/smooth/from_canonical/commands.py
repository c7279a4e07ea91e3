"""Rules from canonical commands to smooth actions, in the order of to_canonical/commands.py.

The context of a rule only counts losses.
"""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET

from dragoman.mappings.canonical import Unmapped, commands
from dragoman.mappings.canonical.values import FileAttachment, ImageAttachment, flatten, has_references
from dragoman.mappings.extras import read_raw
from dragoman.mappings.losses import Losses
from dragoman.mappings.rules import Lossy, Rules
from dragoman.mappings.smooth.from_canonical.context import Messages
from dragoman.mappings.smooth.vocabulary import carried, given, omits_supports
from dragoman.mappings.smooth.wire import actions as wire
from dragoman.mappings.smooth.wire.events import FORMS

FROM_COMMAND = Rules[[Losses], object]("canonical commands -> smooth")

TITLE_MAX = 60  # characters of a title that servers keep (docs/dialects/smooth.md, section 3)
DETAILS: tuple[Literal["low", "high", "auto"], ...] = ("low", "high", "auto")


def _id(command: commands.CommandBase) -> str | None:
    """Return the request id of the action; a client's own may be empty."""
    return command.request or given(command.ext, "requestId", str, None)


def _create(command: commands.OpenSession | commands.ResumeSession, conversation: str | None) -> Messages:
    ext = command.ext
    return (
        wire.CreateConversationSession(
            request_id=_id(command),
            agent_id=command.agent,
            user_name=command.user_name or given(ext, "userName", str, None),
            user_email=command.user_email or given(ext, "userEmail", str, None),
            browser_fingerprint=given(ext, "browserFingerprint", str, None),
            metadata=read_raw(command.metadata, dict[str, object]),
            auth_context=given(ext, "authContext", wire.AuthContext, None),
            supports=None if command.supports is None else list(command.supports),
            conversation_id=conversation,
        ),
    )


@FROM_COMMAND.rule(
    commands.OpenSession, produces=(wire.CreateConversationSession,), fidelity=Lossy(("title", "model", "cwd"))
)
def open_session(command: commands.OpenSession, _context: Losses) -> Messages:
    return _create(command, given(command.ext, "conversationId", str, None))


@FROM_COMMAND.rule(commands.ResumeSession, produces=(wire.CreateConversationSession,))
def resume_session(command: commands.ResumeSession, _context: Losses) -> Messages:
    return _create(command, command.session)


def changes_conversation(command: commands.ResumeSession, opening: commands.OpenSession | None) -> bool:
    """Return True if a create has facts that the one before did not have: credentials, an agent, a user, further forms.

    A client does not change the agent of a conversation that a client of another dialect opened.
    """
    known = opening or commands.OpenSession()
    return (
        carried(command.ext, "authContext") is not None
        or (_is_of_smooth_client(known) and command.agent != known.agent)
        or command.user_name not in ("", known.user_name)
        or command.user_email not in ("", known.user_email)
        or not set(command.supports or ()) <= set(declared_forms(known) or ())
        or command.metadata not in (UNSET, known.metadata)
    )


def declared_forms(command: commands.OpenSession | commands.ResumeSession) -> tuple[str, ...] | None:
    """Return the forms for `supports`: all for clients of other dialects, which the gateway can ask in words."""
    return command.supports if _is_of_smooth_client(command) else FORMS


def _is_of_smooth_client(command: commands.OpenSession | commands.ResumeSession) -> bool:
    """Return True if a smooth client sent the command, with or without `supports`."""
    return command.supports is not None or omits_supports(command.ext)


@FROM_COMMAND.rule(commands.GetSession, produces=(wire.GetSession,))
def get_session(command: commands.GetSession, _context: Losses) -> Messages:
    return (wire.GetSession(request_id=_id(command), session_id=command.session),)


@FROM_COMMAND.rule(commands.GetHistory, produces=(wire.GetConversationMessages,))
def get_history(command: commands.GetHistory, _context: Losses) -> Messages:
    return (
        wire.GetConversationMessages(
            request_id=_id(command),
            session_id=command.session,
            limit=command.limit or given(command.ext, "limit", int, None),
            cursor=command.cursor or given(command.ext, "cursor", str, None),
        ),
    )


@FROM_COMMAND.rule(commands.ListSessions, produces=(wire.ListConversations,), fidelity=Lossy(("archived",)))
def list_sessions(command: commands.ListSessions, _context: Losses) -> Messages:
    return (
        wire.ListConversations(
            request_id=_id(command),
            limit=command.limit or given(command.ext, "limit", int, None),
            cursor=command.cursor or given(command.ext, "cursor", str, None),
            query=command.query or given(command.ext, "query", str, None),
        ),
    )


@FROM_COMMAND.rule(commands.RenameSession, produces=(wire.RenameConversation,))
def rename_session(command: commands.RenameSession, context: Losses) -> Messages:
    if len(command.title) > TITLE_MAX:
        context.lose(command, "title", f"a smooth server keeps {TITLE_MAX} characters of a title")
    return (wire.RenameConversation(request_id=_id(command), conversation_id=command.session, title=command.title),)


@FROM_COMMAND.rule(
    commands.SubmitInput,
    produces=(wire.SendMessage,),
    # references and pastes become text
    fidelity=Lossy(("segments",), lost_by=lambda item: ("segments",) if has_references(item.segments) else ()),
)
def submit_input(command: commands.SubmitInput, _context: Losses) -> Messages:
    """Write the input as one string and its attachments."""
    ext = command.ext
    images = [
        wire.Image(url=segment.url, detail=next((d for d in DETAILS if d == segment.detail), None))
        for segment in command.segments
        if isinstance(segment, ImageAttachment)
    ]
    files = [
        wire.File(name=segment.name, url=segment.url, mime_type=segment.mime_type or None)
        for segment in command.segments
        if isinstance(segment, FileAttachment)
    ]
    return (
        wire.SendMessage(
            request_id=_id(command),
            session_id=command.session,
            message=flatten(command.segments),
            stream=given(ext, "stream", bool, None),
            model=command.model or given(ext, "model", str, None),
            images=images or given(ext, "images", list[wire.Image], None),
            files=files or given(ext, "files", list[wire.File], None),
            skill=given(ext, "skill", str, None),
        ),
    )


@FROM_COMMAND.rule(commands.AnswerApproval, produces=(wire.ConfirmToolAction,), fidelity=Lossy(("question",)))
def answer_approval(command: commands.AnswerApproval, _context: Losses) -> Messages:
    return (wire.ConfirmToolAction(request_id=_id(command), session_id=command.session, approved=command.approved),)


@FROM_COMMAND.rule(commands.AnswerOtp, produces=(wire.VerifyOtp,))
def answer_otp(command: commands.AnswerOtp, _context: Losses) -> Messages:
    return (wire.VerifyOtp(request_id=_id(command), session_id=command.session, code=command.code),)


@FROM_COMMAND.rule(commands.AnswerInteraction, produces=(wire.SubmitInteraction,))
def answer_interaction(command: commands.AnswerInteraction, _context: Losses) -> Messages:
    return (
        wire.SubmitInteraction(
            request_id=_id(command),
            session_id=command.session,
            interaction_id=command.question,
            kind=command.kind or given(command.ext, "kind", str, None),
            values=read_raw(command.values, dict[str, object]),
            declined=command.declined or given(command.ext, "declined", bool, None),
        ),
    )


@FROM_COMMAND.rule(commands.CancelTurn, produces=(wire.Cancel,))
def cancel_turn(command: commands.CancelTurn, _context: Losses) -> Messages:
    session = command.session or given(command.ext, "sessionId", str, None)
    return (wire.Cancel(request_id=_id(command), session_id=session),)


@FROM_COMMAND.rule(commands.Ping, produces=(wire.Ping,))
def ping(command: commands.Ping, _context: Losses) -> Messages:
    return (wire.Ping(request_id=_id(command)),)


FROM_COMMAND.none("smooth has no prompt without a turn", commands.PromptOnce)
FROM_COMMAND.none("smooth has no notes for the model", commands.InjectNote)
FROM_COMMAND.none("smooth cannot pause", commands.PauseTurn, commands.ResumeTurn)
FROM_COMMAND.none("smooth cannot compact", commands.Compact)
FROM_COMMAND.none("smooth has no completions", commands.ListCompletions)
FROM_COMMAND.none(
    "smooth can only rename a conversation",
    commands.ForkSession,
    commands.ArchiveSession,
    commands.UnarchiveSession,
    commands.DeleteSession,
)
FROM_COMMAND.none("smooth has no goals", commands.SetGoal, commands.GetGoal, commands.ClearGoal)
FROM_COMMAND.none("smooth has no configuration on the wire", *commands.CONFIGURATION)
FROM_COMMAND.none("smooth cannot end its server", commands.ShutdownBackend)
FROM_COMMAND.none("smooth has no store", commands.StoreWrite)
FROM_COMMAND.none("a server answers UNSUPPORTED_ACTION", Unmapped)
