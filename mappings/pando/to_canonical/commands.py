"""Requests as canonical commands, in the order of docs/dialects/pando.md, sections 6 and 7.

`ext` carries the parts of a request that its command has no place for: null params, the meta of a write, a row.
"""

from __future__ import annotations

from msgspec import UNSET, Raw

from dragoman.mappings.canonical import commands
from dragoman.mappings.canonical.values import Ext, Text
from dragoman.mappings.pando.vocabulary import keep
from dragoman.mappings.pando.wire import requests as wire
from dragoman.mappings.rules import Rules

TO_COMMAND = Rules[[], commands.Command]("pando -> canonical commands")

Commands = tuple[commands.Command, ...]


def _ignored(params: Raw) -> Ext | None:
    return keep(params=UNSET if bytes(params) == b"{}" else params)


def _null(params: object) -> Ext | None:
    return keep(params=None if params is None else UNSET)


def _session(params: wire.OfSession | None) -> str:
    return "" if params is None else params.session_id


@TO_COMMAND.rule(wire.InstancePing, produces=(commands.Ping,))
def instance_ping(message: wire.InstancePing) -> Commands:
    return (commands.Ping(request=message.id, ext=_ignored(message.params)),)


@TO_COMMAND.rule(wire.InstanceInfo, produces=(commands.GetCapabilities,))
def instance_info(message: wire.InstanceInfo) -> Commands:
    return (commands.GetCapabilities(request=message.id, ext=_ignored(message.params)),)


@TO_COMMAND.rule(wire.SessionList, produces=(commands.ListSessions,))
def session_list(message: wire.SessionList) -> Commands:
    return (commands.ListSessions(request=message.id, ext=_ignored(message.params)),)


@TO_COMMAND.rule(wire.SessionGet, produces=(commands.GetSession,))
def session_get(message: wire.SessionGet) -> Commands:
    params = message.params
    return (commands.GetSession(request=message.id, session=_session(params), ext=_null(params)),)


@TO_COMMAND.rule(wire.SessionActivate, produces=(commands.ResumeSession,))
def session_activate(message: wire.SessionActivate) -> Commands:
    params = message.params
    return (commands.ResumeSession(request=message.id, session=_session(params), ext=_null(params)),)


@TO_COMMAND.rule(wire.MessageList, produces=(commands.GetHistory,))
def message_list(message: wire.MessageList) -> Commands:
    params = message.params
    return (commands.GetHistory(request=message.id, session=_session(params), ext=_null(params)),)


@TO_COMMAND.rule(wire.MessageSend, produces=(commands.SubmitInput,))
def message_send(message: wire.MessageSend) -> Commands:
    params = message.params
    said = wire.Words() if params is None else params
    segments = (Text(text=said.content),) if said.content else ()
    return (commands.SubmitInput(request=message.id, session=said.session_id, segments=segments, ext=_null(params)),)


@TO_COMMAND.rule(wire.SessionInterrupt, produces=(commands.CancelTurn,))
def session_interrupt(message: wire.SessionInterrupt) -> Commands:
    params = message.params
    return (commands.CancelTurn(request=message.id, session=_session(params), ext=_null(params)),)


@TO_COMMAND.rule(wire.StateSync, produces=(commands.ListSessions,))
def state_sync(message: wire.StateSync) -> Commands:
    params = message.params
    project = UNSET if params is None else params.project_id
    null = None if params is None else UNSET
    return (commands.ListSessions(request=message.id, ext=keep(sync=True, project_id=project, params=null)),)


# -- db.write ---------------------------------------------------------------------------------------


@TO_COMMAND.rule(wire.CreateSession, produces=(commands.OpenSession,))
def create_session(message: wire.CreateSession) -> Commands:
    write = message.params
    row = write.params
    usual = wire.NewSession(id=row.id, title=row.title)
    ext = keep(meta=write.meta, row=UNSET if row == usual else row)
    return (commands.OpenSession(request=message.id, session=row.id, title=row.title, ext=ext),)


@TO_COMMAND.rule(wire.UpdateSession, produces=(commands.RenameSession,))
def update_session(message: wire.UpdateSession) -> Commands:
    write = message.params
    row = write.params
    usual = wire.SessionChange(id=row.id, title=row.title)
    ext = keep(meta=write.meta, row=UNSET if row == usual else row)
    return (commands.RenameSession(request=message.id, session=row.id, title=row.title, ext=ext),)


@TO_COMMAND.rule(wire.DeleteSession, produces=(commands.DeleteSession,))
def delete_session(message: wire.DeleteSession) -> Commands:
    write = message.params
    return (commands.DeleteSession(request=message.id, session=write.params, ext=keep(meta=write.meta)),)


@TO_COMMAND.rule(wire.Write, produces=(commands.StoreWrite,))
def write(message: wire.Write) -> Commands:
    said = message.params
    return (commands.StoreWrite(request=message.id, method=said.method, params=said.params, ext=keep(meta=said.meta)),)
