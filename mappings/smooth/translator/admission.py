"""Checks and corrections that a smooth server makes on well-formed actions.

The source is docs/dialects/smooth.md, sections 3 and 5.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dragoman.mappings.canonical import Command, commands
from dragoman.mappings.canonical.values import attachments, flatten
from dragoman.mappings.errors import PeerError
from dragoman.mappings.smooth.vocabulary import carried

PAGE_DEFAULT = 50
PAGE_MAX = 100
LIST_MAX = 200

SESSION = ("session", "sessionId", False)
REQUIRED: dict[type, tuple[tuple[str, str, bool], ...]] = {
    commands.OpenSession: (("agent", "agentId", True),),
    commands.ResumeSession: (("agent", "agentId", True),),
    commands.GetSession: (SESSION,),
    commands.GetHistory: (SESSION,),
    commands.SubmitInput: (SESSION,),
    commands.RenameSession: (("session", "conversationId", True), ("title", "title", True)),
    commands.AnswerApproval: (SESSION,),
    commands.AnswerOtp: (SESSION, ("code", "code", False)),
    commands.AnswerInteraction: (SESSION, ("question", "interactionId", True)),
}
"""Commands -> their fields that must not be empty, or not blank if True, with their names in the action."""

NEED_REQUEST: dict[type, str] = {commands.AnswerOtp: "verify_otp", commands.AnswerInteraction: "submit_interaction"}
"""Commands that need a request id -> their action."""


def admitted(command: Any) -> Command:
    """Return the command as a server accepts it; raises PeerError `invalid` where servers send VALIDATION_ERROR."""
    kind = type(command)
    if kind in NEED_REQUEST and not command.request and carried(command.ext, "requestId") is None:
        raise PeerError("invalid", f"{NEED_REQUEST[kind]} needs a `requestId`")
    command = _corrected(command)
    for field, name, blank in REQUIRED.get(kind, ()):
        value = getattr(command, field)
        if not (value.strip() if blank else value):
            raise PeerError("invalid", f"`{name}` must not be {'blank' if blank else 'empty'}")
    if kind is commands.SubmitInput and not (flatten(command.segments).strip() or attachments(command.segments)):
        raise PeerError("invalid", "`message` must not be blank")
    return command  # type: ignore[no-any-return]  # of the same type as before


def _corrected(command: Any) -> Any:
    """Return the command with a limit that servers allow, and texts without white space around them."""
    match command:
        case commands.GetHistory() | commands.ListSessions():
            most = PAGE_MAX if isinstance(command, commands.GetHistory) else LIST_MAX
            return replace(command, limit=min(command.limit, most) if command.limit > 0 else PAGE_DEFAULT)
        case commands.SubmitInput():
            return replace(command, model=command.model.strip())
        case commands.RenameSession():
            return replace(command, title=command.title.strip())
    return command
