"""Checks and corrections that a smooth server makes on well-formed actions.

The source is docs/dialects/smooth.md, sections 3 and 5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from dragoman.mappings.canonical import commands
from dragoman.mappings.canonical.commands import Command
from dragoman.mappings.canonical.values import attachments, flatten
from dragoman.mappings.errors import PeerError
from dragoman.mappings.smooth.vocabulary import carried

PAGE_DEFAULT = 50
PAGE_MAX = 100
LIST_MAX = 200
TITLE_MAX = 60  # characters of a title that servers keep


def admitted(command: Command) -> Command:
    """Return the command as a server accepts it; raises PeerError `invalid` where servers send VALIDATION_ERROR."""
    check = CHECKS.get(type(command))
    return command if check is None else check(command)


def _require(good: bool, text: str) -> None:
    if not good:
        raise PeerError("invalid", text)


def _has_request(command: Any) -> bool:
    """Return True if the client sent a request id; an empty one counts."""
    return bool(command.request) or carried(command.ext, "requestId") is not None


def _create(command: Any) -> Command:
    _require(bool(command.agent.strip()), "`agentId` must not be blank")
    return command  # type: ignore[no-any-return]  # OpenSession or ResumeSession


def _names_session(command: Any) -> Command:
    _require(bool(command.session), "`sessionId` must not be empty")
    return command  # type: ignore[no-any-return]  # any command that names a session


def _history(command: commands.GetHistory) -> Command:
    _names_session(command)
    return replace(command, limit=_limit(command.limit, PAGE_MAX))


def _list(command: commands.ListSessions) -> Command:
    return replace(command, limit=_limit(command.limit, LIST_MAX))


def _limit(asked: int, most: int) -> int:
    return min(asked, most) if asked > 0 else PAGE_DEFAULT


def _input(command: commands.SubmitInput) -> Command:
    _names_session(command)
    has_content = flatten(command.segments).strip() or attachments(command.segments)
    _require(bool(has_content), "`message` must not be blank")
    return replace(command, model=command.model.strip())


def _rename(command: commands.RenameSession) -> Command:
    title = command.title.strip()[:TITLE_MAX].rstrip()
    _require(bool(command.session.strip()), "`conversationId` must not be blank")
    _require(bool(title), "`title` must not be blank")
    return replace(command, title=title)


def _otp(command: commands.AnswerOtp) -> Command:
    _require(_has_request(command), "verify_otp needs a `requestId`")
    _names_session(command)
    _require(bool(command.code), "`code` must not be empty")
    return command


def _interaction(command: commands.AnswerInteraction) -> Command:
    _require(_has_request(command), "submit_interaction needs a `requestId`")
    _names_session(command)
    _require(bool(command.question.strip()), "`interactionId` must not be blank")
    return command


CHECKS: dict[type, Callable[[Any], Command]] = {
    commands.OpenSession: _create,
    commands.ResumeSession: _create,
    commands.GetSession: _names_session,
    commands.GetHistory: _history,
    commands.ListSessions: _list,
    commands.RenameSession: _rename,
    commands.SubmitInput: _input,
    commands.AnswerApproval: _names_session,
    commands.AnswerOtp: _otp,
    commands.AnswerInteraction: _interaction,
}
