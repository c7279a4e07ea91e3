"""Rules from pando calls to canonical commands, in the order of docs/dialects/pando.md, sections 6 and 7.

`ext` carries the parts of a request without a canonical counterpart: null params, `meta` of a write, a stored row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from dragoman.mappings.canonical import Command, Commands, commands
from dragoman.mappings.canonical.values import Ext, Text
from dragoman.mappings.pando.vocabulary import keep
from dragoman.mappings.pando.wire import requests as wire
from dragoman.mappings.rules import Rules

TO_COMMAND = Rules[[], Command]("pando -> canonical commands")


def _null(params: object) -> Ext | None:
    return keep(params=None if params is None else UNSET)


def _about_session(kind: Callable[..., Command]) -> Callable[[Any], Commands]:
    def rule(message: Any) -> Commands:
        params: wire.OfSession | None = message.params
        session = "" if params is None else params.session_id
        return (kind(request=message.id, session=session, ext=_null(params)),)

    return rule


def _about_nothing(kind: Callable[..., Command]) -> Callable[[Any], Commands]:
    def rule(message: Any) -> Commands:
        params = UNSET if bytes(message.params) == b"{}" else message.params
        return (kind(request=message.id, ext=keep(params=params)),)

    return rule


TO_COMMAND.rule(wire.InstancePing, produces=(commands.Ping,))(_about_nothing(commands.Ping))
TO_COMMAND.rule(wire.InstanceInfo, produces=(commands.GetCapabilities,))(_about_nothing(commands.GetCapabilities))
TO_COMMAND.rule(wire.SessionList, produces=(commands.ListSessions,))(_about_nothing(commands.ListSessions))
TO_COMMAND.rule(wire.SessionGet, produces=(commands.GetSession,))(_about_session(commands.GetSession))
TO_COMMAND.rule(wire.SessionActivate, produces=(commands.ResumeSession,))(_about_session(commands.ResumeSession))
TO_COMMAND.rule(wire.MessageList, produces=(commands.GetHistory,))(_about_session(commands.GetHistory))
TO_COMMAND.rule(wire.SessionInterrupt, produces=(commands.CancelTurn,))(_about_session(commands.CancelTurn))


@TO_COMMAND.rule(wire.MessageSend, produces=(commands.SubmitInput,))
def message_send(message: wire.MessageSend) -> Commands:
    params = message.params
    words = wire.MessageSend.Params() if params is None else params
    segments = (Text(text=words.content),) if words.content else ()
    return (commands.SubmitInput(request=message.id, session=words.session_id, segments=segments, ext=_null(params)),)


@TO_COMMAND.rule(wire.StateSync, produces=(commands.ListSessions,))
def state_sync(message: wire.StateSync) -> Commands:
    params = message.params
    project = UNSET if params is None else params.project_id
    null = None if params is None else UNSET
    return (commands.ListSessions(request=message.id, ext=keep(sync=True, project_id=project, params=null)),)


# -- db.write ---------------------------------------------------------------------------------------


@TO_COMMAND.rule(wire.CreateSession, produces=(commands.OpenSession,), ext=("row",))
def create_session(message: wire.CreateSession) -> Commands:
    write = message.params
    row = write.params
    usual = wire.NewSession(id=row.id, title=row.title)
    ext = keep(meta=write.meta, row=UNSET if row == usual else row)
    return (commands.OpenSession(request=message.id, session=row.id, title=row.title, ext=ext),)


@TO_COMMAND.rule(wire.UpdateSession, produces=(commands.RenameSession,), ext=("row",))
def update_session(message: wire.UpdateSession) -> Commands:
    """Map a change of a session's row to a rename; its `ext` always has the row, null if it has only a title."""
    write = message.params
    row = write.params
    usual = wire.SessionChange(id=row.id, title=row.title)
    ext = keep(meta=write.meta, row=None if row == usual else row)
    return (commands.RenameSession(request=message.id, session=row.id, title=row.title, ext=ext),)


@TO_COMMAND.rule(wire.DeleteSession, produces=(commands.DeleteSession,))
def delete_session(message: wire.DeleteSession) -> Commands:
    write = message.params
    return (commands.DeleteSession(request=message.id, session=write.params, ext=keep(meta=write.meta)),)


@TO_COMMAND.rule(wire.Write, produces=(commands.StoreWrite,))
def write(message: wire.Write) -> Commands:
    params = message.params
    return (
        commands.StoreWrite(request=message.id, method=params.method, params=params.params, ext=keep(meta=params.meta)),
    )
