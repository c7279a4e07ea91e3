"""The forms in which a server refuses each method (docs/dialects/codewhale.md, sections 1.2 and 2).

Some methods refuse with a JSON-RPC error, others with a result that reports the failure.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from dragoman.mappings.canonical import Command, commands
from dragoman.mappings.canonical.values import Failure
from dragoman.mappings.codewhale.from_canonical.commands import FROM_COMMAND
from dragoman.mappings.codewhale.from_canonical.events import problem_of
from dragoman.mappings.codewhale.from_canonical.replies import missing
from dragoman.mappings.codewhale.ids import echo_id
from dragoman.mappings.codewhale.to_canonical.commands import TO_COMMAND
from dragoman.mappings.codewhale.vocabulary import (
    FAILED,
    LATER,
    NOT_FOUND,
    SEED,
    UNKNOWN_THREAD,
    carried,
    given,
)
from dragoman.mappings.codewhale.wire import results
from dragoman.mappings.codewhale.wire.codecs import GROUPS, typed, unknown_kind
from dragoman.mappings.codewhale.wire.requests import REQUESTS, Spelling
from dragoman.mappings.codewhale.wire.results import Problem
from dragoman.mappings.errors import ERROR_TEXT_MAX, PeerError
from dragoman.mappings.extras import raw
from dragoman.mappings.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, NO_METHOD, PARSE_ERROR
from dragoman.mappings.losses import Losses

UNKNOWN_LEAF = "failed to query thread current leaf id for thread"
UNSUPPORTED = "unsupported method: "

APPS = (*commands.CONFIGURATION, commands.AnswerInteraction)
GOALS = (commands.SetGoal, commands.GetGoal, commands.ClearGoal, commands.StoreWrite)

REFUSED_LATER = (
    commands.GetSession,
    commands.GetHistory,
    commands.RenameSession,
    commands.ArchiveSession,
    commands.UnarchiveSession,
    commands.GetGoal,
    commands.ClearGoal,
    commands.PromptOnce,
)
"""Commands about an unknown thread that servers refuse since 0.10.2, and answer with a result before."""

UNKNOWN_TO_SEED: dict[type, Spelling] = {
    TO_COMMAND.entries[kind].produces[0]: kind.spelling for kind in REQUESTS if kind.spelling.later
}
"""Commands that the seed generation does not have -> the names of their request."""


def unknown_method(name: str) -> Problem:
    return Problem(code=NO_METHOD, message=f"{UNSUPPORTED}{name}"[:ERROR_TEXT_MAX])


def of_seed(command: Command) -> Problem | None:
    """Return the seed generation's error for a command that it does not have; None for any other command."""
    later = UNKNOWN_TO_SEED.get(type(command))
    if later is None or not hasattr(command, "ext"):
        return None
    known = given(command.ext, "method", str, later.usual)
    if known in GROUPS:
        return Problem(code=INVALID_PARAMS, message=unknown_kind(known, later.kind, seed=True))
    return unknown_method(known)


def of_fault(fault: PeerError) -> tuple[Raw, Problem]:
    """Return the id to answer and the error, for a line that is not a request or has wrong params."""
    value = fault.value if isinstance(fault.value, dict) else None
    if value is None:
        return results.NULL, Problem(code=PARSE_ERROR, message=f"invalid json: {fault.text}"[:ERROR_TEXT_MAX])
    version = value.get("jsonrpc")
    code = INVALID_PARAMS if version in (None, "2.0") else INVALID_REQUEST
    return echo_id(raw(value.get("id"))), Problem(code=code, message=fault.text[:ERROR_TEXT_MAX])


def refusal(command: Command, failure: Failure, thread: str, generation: str) -> Any:
    """Return the answer that refuses a command: a Problem, or a result if its method refuses by results."""
    unknown = failure.cause == "not_found" and not isinstance(command, APPS)
    if unknown and generation == LATER and isinstance(command, REFUSED_LATER):
        return _no_thread(thread)
    found = _unknown_thread(command, failure, thread, generation) if unknown else None
    if found is not None:
        return found  # also if the backend refused with a result, which may be that of the resume before the command
    result = carried(failure.ext, "result")
    if result is not None:
        return typed(result)
    if isinstance(command, APPS):
        return _app(command, failure)
    problem = problem_of(failure)
    if isinstance(command, GOALS) and carried(failure.ext, "data") is None:
        return replace(missing(thread, failure.text), ok=False)
    if problem.code == NO_METHOD and isinstance(command, commands.SubmitInput):
        return replace(problem, code=FAILED)  # the method is known: its attachments are not
    if problem.code == NO_METHOD and not problem.message.startswith(UNSUPPORTED):
        return unknown_method(f"{_method(command)}: {problem.message}")
    return problem


def _method(command: Command) -> str:
    """Return the method name that the client used for a command."""
    asked = FROM_COMMAND.functions[type(command)](command, Losses())
    return next((str(request.method) for request in asked), type(command).__name__)


def _app(command: Command, failure: Failure) -> results.AppResponse:
    data: dict[str, object] = {}
    if isinstance(command, commands.GetConfig | commands.SetConfig | commands.UnsetConfig):
        data["key"] = command.key
    if isinstance(command, commands.SetConfig):
        data["value"] = command.value
    return results.AppResponse(ok=False, data=raw(data | {"error": failure.text}))


def _unknown_thread(command: Command, failure: Failure, thread: str, generation: str) -> Any:
    """Return the answer for an unknown thread; None if the method uses an ordinary error for it."""
    match command:
        case commands.ResumeSession() | commands.ForkSession() if (
            generation == SEED or given(command.ext, "method", str, "") in GROUPS
        ):
            return missing(thread, UNKNOWN_THREAD)
        case commands.ResumeSession() | commands.ForkSession() | commands.SubmitInput():
            return _no_thread(thread)
        case commands.GetSession() | commands.GetHistory():
            data = raw({"history": [], "checkpoint": None, "goal": None})
            return results.ThreadResponse(thread_id=thread, status="ok", data=data)
        case commands.RenameSession():
            return results.ThreadResponse(thread_id=thread, status="ok", data=results.EMPTY)
        case commands.ArchiveSession() | commands.UnarchiveSession():
            status = "archived" if isinstance(command, commands.ArchiveSession) else "unarchived"
            return results.ThreadResponse(thread_id=thread, status=status, data=results.EMPTY)
        case commands.SetGoal():
            return missing(thread, UNKNOWN_THREAD)
        case commands.StoreWrite():
            return missing(thread, "thread or goal not found")
        case commands.GetGoal():
            return results.ThreadResponse(thread_id=thread, status="ok", data=raw({"goal": None}))
        case commands.ClearGoal():
            return results.ThreadResponse(thread_id=thread, status="empty", data=raw({"cleared": False}))
        case commands.CancelTurn():
            return results.Interrupted(thread_id=thread, interrupted=False)
        case commands.PromptOnce() if carried(failure.ext, "code") is None:
            return Problem(code=FAILED, message=f"{UNKNOWN_LEAF} {thread}")  # releases before 0.10.2
    return None


def _no_thread(thread: str) -> Problem:
    data = raw({"error": "thread_not_found", "thread_id": thread})
    return Problem(code=NOT_FOUND, message=f"{UNKNOWN_THREAD}: {thread}", data=data)
