"""Rules from canonical commands to pando calls, in the order of to_canonical/commands.py.

The context of a rule only counts losses. Commands without a form in pando come last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from dragoman.mappings.canonical import Unmapped, commands
from dragoman.mappings.canonical.values import Ext, attachments, flatten
from dragoman.mappings.losses import CLIENT_DETAILS, TEXT_INPUT, Losses
from dragoman.mappings.pando.from_canonical.context import Messages
from dragoman.mappings.pando.vocabulary import carried, given
from dragoman.mappings.pando.wire import requests as wire
from dragoman.mappings.rules import Lossy, Rules

FROM_COMMAND = Rules[[Losses], Struct | bytes]("canonical commands -> pando")


def _ignored(ext: Ext | None) -> Raw:
    return carried(ext, "params") or wire.EMPTY


def _null(ext: Ext | None) -> bool:
    return carried(ext, "params") is not None


def _about_session(make: Callable[..., Struct]) -> Callable[[Any, Losses], Messages]:
    def rule(command: Any, _context: Losses) -> Messages:
        params = None if _null(command.ext) else wire.OfSession(session_id=command.session)
        return (make(id=command.request, params=params),)

    return rule


def _about_nothing(make: Callable[..., Struct]) -> Callable[[Any, Losses], Messages]:
    def rule(command: Any, _context: Losses) -> Messages:
        return (make(id=command.request, params=_ignored(command.ext)),)

    return rule


FROM_COMMAND.rule(commands.Ping, produces=(wire.InstancePing,))(_about_nothing(wire.InstancePing))
FROM_COMMAND.rule(commands.GetCapabilities, produces=(wire.InstanceInfo,), fidelity=Lossy(("session",)))(
    _about_nothing(wire.InstanceInfo)
)
FROM_COMMAND.rule(commands.GetSession, produces=(wire.SessionGet,))(_about_session(wire.SessionGet))
FROM_COMMAND.rule(commands.ResumeSession, produces=(wire.SessionActivate,), fidelity=Lossy(CLIENT_DETAILS))(
    _about_session(wire.SessionActivate)
)
FROM_COMMAND.rule(
    commands.GetHistory,
    produces=(wire.MessageList,),
    fidelity=Lossy(("limit", "cursor"), lost_by=lambda _command: ()),  # the gateway makes the page of the whole list
)(_about_session(wire.MessageList))
FROM_COMMAND.rule(commands.CancelTurn, produces=(wire.SessionInterrupt,))(_about_session(wire.SessionInterrupt))


@FROM_COMMAND.rule(
    commands.ListSessions,
    produces=(wire.SessionList, wire.StateSync),
    fidelity=Lossy(("limit", "cursor", "query", "archived")),
)
def list_sessions(command: commands.ListSessions, _context: Losses) -> Messages:
    if not given(command.ext, "sync", bool, False):
        return (wire.SessionList(id=command.request, params=_ignored(command.ext)),)
    project: str | UnsetType = given(command.ext, "project_id", str, "") or UNSET
    params = None if _null(command.ext) else wire.StateSync.Params(project_id=project)
    return (wire.StateSync(id=command.request, params=params),)


@FROM_COMMAND.rule(
    commands.SubmitInput,
    produces=(wire.MessageSend,),
    fidelity=TEXT_INPUT,
)
def submit_input(command: commands.SubmitInput, context: Losses) -> Messages:
    for _ in attachments(command.segments):
        context.lose(command, "segments", "a pando takes no images or files by URL")
    words = wire.MessageSend.Params(session_id=command.session, content=flatten(command.segments))
    return (wire.MessageSend(id=command.request, params=None if _null(command.ext) else words),)


# -- db.write ---------------------------------------------------------------------------------------


def _meta(ext: Ext | None) -> wire.Meta | UnsetType:
    return given(ext, "meta", wire.Meta, UNSET)


@FROM_COMMAND.rule(
    commands.OpenSession, produces=(wire.CreateSession,), fidelity=Lossy((*CLIENT_DETAILS, "model", "cwd"))
)
def open_session(command: commands.OpenSession, _context: Losses) -> Messages:
    row = given(command.ext, "row", wire.NewSession, wire.NewSession())
    row = replace(row, id=command.session, title=command.title)
    return (
        wire.CreateSession(id=command.request, params=wire.CreateSession.Params(meta=_meta(command.ext), params=row)),
    )


@FROM_COMMAND.rule(commands.RenameSession, produces=(wire.UpdateSession,))
def rename_session(command: commands.RenameSession, context: Losses) -> Messages:
    if carried(command.ext, "row") is None:
        context.lose(command, "row", "the pando sets tokens, cost and summary to zero: only its own clients send them")
    row = given(command.ext, "row", wire.SessionChange, wire.SessionChange())
    row = replace(row, id=command.session, title=command.title)
    return (
        wire.UpdateSession(id=command.request, params=wire.UpdateSession.Params(meta=_meta(command.ext), params=row)),
    )


@FROM_COMMAND.rule(commands.DeleteSession, produces=(wire.DeleteSession,))
def delete_session(command: commands.DeleteSession, _context: Losses) -> Messages:
    params = wire.DeleteSession.Params(meta=_meta(command.ext), params=command.session)
    return (wire.DeleteSession(id=command.request, params=params),)


@FROM_COMMAND.rule(commands.StoreWrite, produces=(wire.Write,), fidelity=Lossy(("session",)))
def store_write(command: commands.StoreWrite, _context: Losses) -> Messages:
    params = wire.Write.Params(meta=_meta(command.ext), method=command.method, params=command.params)
    return (wire.Write(id=command.request, params=params),)


# -- commands without a form in pando ---------------------------------------------------------------

FROM_COMMAND.none("pando has no prompt without a turn", commands.PromptOnce)
FROM_COMMAND.none("pando has no notes for the model", commands.InjectNote)
FROM_COMMAND.none("pando cannot pause", commands.PauseTurn, commands.ResumeTurn)
FROM_COMMAND.none("pando has no request to compact", commands.Compact)
FROM_COMMAND.none("pando asks no questions", commands.AnswerApproval, commands.AnswerOtp, commands.AnswerInteraction)
FROM_COMMAND.none("pando has no completions", commands.ListCompletions)
FROM_COMMAND.none(
    "pando can only rename and delete a session",
    commands.ForkSession,
    commands.ArchiveSession,
    commands.UnarchiveSession,
)
FROM_COMMAND.none("pando has no goals", commands.SetGoal, commands.GetGoal, commands.ClearGoal)
FROM_COMMAND.none("pando has no configuration on the wire", *commands.SETTINGS)
FROM_COMMAND.none("pando cannot be ended by its clients", commands.ShutdownBackend)
FROM_COMMAND.none("a pando answers -32601", Unmapped)
