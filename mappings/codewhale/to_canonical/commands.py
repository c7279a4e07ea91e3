"""Rules from codewhale requests to canonical commands, in the order of docs/dialects/codewhale.md, section 2.

`ext` keeps the spelling of a request: its method name, and the params without a canonical counterpart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import UNSET, Raw, UnsetType

from dragoman.mappings.canonical import Command, Commands, commands
from dragoman.mappings.canonical.values import Ext, Text
from dragoman.mappings.codewhale.ids import read_id, session_id, thread_id
from dragoman.mappings.codewhale.images import as_attachment
from dragoman.mappings.codewhale.vocabulary import CAPABILITIES, TURN_OPTIONS, keep
from dragoman.mappings.codewhale.wire import requests
from dragoman.mappings.codewhale.wire.requests import RequestBase
from dragoman.mappings.extras import raw
from dragoman.mappings.rules import Rules

TO_COMMAND = Rules[[], Command]("codewhale -> canonical commands")


def _form(message: RequestBase, params: object = UNSET, thread: str = "", **more: object) -> Ext | None:
    """Return an ext with the spelling of a request, as far as its command does not have it.

    `thread` is the thread it names.
    """
    return keep(
        method=UNSET if message.method in message.spelling.methods[:1] else message.method,
        jsonrpc=UNSET if message.jsonrpc == "2.0" else (None if message.jsonrpc is UNSET else ""),
        params=params,
        thread_id=thread if thread_id(session_id(thread)) != thread else UNSET,
        **more,
    )


def _head(message: RequestBase, thread: str, params: object = UNSET, **more: object) -> commands.CommandHead:
    """Return the fields of a command about the thread that the request names."""
    ext = _form(message, params, thread, **more)
    return commands.CommandHead(request=read_id(message.id), session=session_id(thread), ext=ext)


def _turn_options(params: requests.Message.Params | requests.Prompt.Params) -> dict[str, object]:
    """Return the options of one turn, which only servers of this dialect have."""
    return {name: UNSET if (value := getattr(params, name)) is None else value for name in TURN_OPTIONS}


def _ignored(params: requests.NoParams | Raw | UnsetType) -> object:
    return UNSET if isinstance(params, requests.NoParams) else params


@TO_COMMAND.rule(requests.Create, produces=(commands.OpenSession,))
def create(message: requests.Create) -> Commands:
    params = message.params
    metadata = params.metadata if isinstance(params, requests.Create.Params) else UNSET
    ext = _form(message, UNSET if metadata is not UNSET else params, kind="create")
    return (commands.OpenSession(request=read_id(message.id), metadata=metadata, ext=ext),)


@TO_COMMAND.rule(requests.Start, produces=(commands.OpenSession,), ext=("params.model_provider",))
def start(message: requests.Start) -> Commands:
    ext = _form(message, message.params, absent=True if message.params is UNSET else UNSET)
    params = message.params if isinstance(message.params, requests.Start.Params) else requests.Start.Params()
    return (commands.OpenSession(request=read_id(message.id), model=params.model or "", cwd=params.cwd or "", ext=ext),)


SETTINGS = (
    *("params.model", "params.model_provider", "params.cwd", "params.approval_policy", "params.sandbox"),
    *("params.config", "params.base_instructions", "params.developer_instructions", "params.personality"),
)
"""The settings of a thread that a resume changes."""
HISTORY = "params.history"  # which a resume adds to its thread


@TO_COMMAND.rule(requests.Resume, produces=(commands.ResumeSession,), ext=(*SETTINGS, HISTORY))
def resume(message: requests.Resume) -> Commands:
    return (commands.ResumeSession(**_head(message, message.params.thread_id, message.params)),)


@TO_COMMAND.rule(requests.Fork, produces=(commands.ForkSession,))
def fork(message: requests.Fork) -> Commands:
    return (commands.ForkSession(**_head(message, message.params.thread_id, message.params)),)


@TO_COMMAND.rule(requests.List, produces=(commands.ListSessions,))
def list_threads(message: requests.List) -> Commands:
    params = message.params
    limit = (params.limit or 0) if isinstance(params, requests.List.Params) else 0
    archived = isinstance(params, requests.List.Params) and params.include_archived is True
    usual = params == requests.List.Params.asking(limit, archived)
    ext = _form(message, UNSET if usual else params)
    return (commands.ListSessions(request=read_id(message.id), limit=limit, archived=archived, ext=ext),)


@TO_COMMAND.rule(requests.SetName, produces=(commands.RenameSession,))
def set_name(message: requests.SetName) -> Commands:
    params = message.params
    return (commands.RenameSession(title=params.name, **_head(message, params.thread_id)),)


@TO_COMMAND.rule(requests.GoalSet, produces=(commands.SetGoal,))
def goal_set(message: requests.GoalSet) -> Commands:
    params = message.params
    head = _head(message, params.thread_id)
    return (commands.SetGoal(objective=params.objective, token_budget=params.token_budget, **head),)


@TO_COMMAND.rule(requests.GoalProgress, produces=(commands.StoreWrite,))
def goal_progress(message: requests.GoalProgress) -> Commands:
    """Return a StoreWrite: the backend's store adds these counts to the goal's progress."""
    params = message.params
    return (commands.StoreWrite(method=message.spelling.kind, params=raw(params), **_head(message, params.thread_id)),)


@TO_COMMAND.rule(requests.Message, produces=(commands.SubmitInput,), ext=tuple(TURN_OPTIONS))
def message(message: requests.Message) -> Commands:
    params = message.params
    text = (Text(text=params.input),) if params.input else ()
    segments = (*text, *map(as_attachment, params.images))
    head = _head(message, params.thread_id, **_turn_options(params))
    return (commands.SubmitInput(segments=segments, **head),)


@TO_COMMAND.rule(requests.ConfigGet, produces=(commands.GetConfig,))
def config_get(message: requests.ConfigGet) -> Commands:
    return (commands.GetConfig(request=read_id(message.id), key=message.params.key, ext=_form(message)),)


@TO_COMMAND.rule(requests.ConfigSet, produces=(commands.SetConfig,))
def config_set(message: requests.ConfigSet) -> Commands:
    params = message.params
    return (commands.SetConfig(request=read_id(message.id), key=params.key, value=params.value, ext=_form(message)),)


@TO_COMMAND.rule(requests.ConfigUnset, produces=(commands.UnsetConfig,))
def config_unset(message: requests.ConfigUnset) -> Commands:
    return (commands.UnsetConfig(request=read_id(message.id), key=message.params.key, ext=_form(message)),)


@TO_COMMAND.rule(requests.SubmitUserInput, produces=(commands.AnswerInteraction,))
def submit_user_input(message: requests.SubmitUserInput) -> Commands:
    params = message.params
    values: dict[str, Any] = {answer.id: answer.value for answer in params.answers}
    ext = _form(message, answers=params.answers)
    return (
        commands.AnswerInteraction(
            request=read_id(message.id), question=params.request_id, values=raw(values) if values else UNSET, ext=ext
        ),
    )


@TO_COMMAND.rule(requests.Prompt, produces=(commands.PromptOnce,))
def prompt(message: requests.Prompt) -> Commands:
    params = message.params
    head = _head(message, params.thread_id or "", images=params.images or UNSET, **_turn_options(params))
    return (commands.PromptOnce(prompt=params.prompt, model=params.model or "", **head),)


# -- requests whose only param is a thread, or that have no params -----------------------------------------


def _about_thread(kind: Callable[..., Command]) -> Callable[[Any], Commands]:
    def rule(message: Any) -> Commands:
        return (kind(**_head(message, message.params.thread_id)),)

    return rule


def _about_nothing(make: Callable[..., Command], kind: str | UnsetType = UNSET) -> Callable[[Any], Commands]:
    def rule(message: Any) -> Commands:
        return (make(request=read_id(message.id), ext=_form(message, _ignored(message.params), kind=kind)),)

    return rule


TO_COMMAND.rule(requests.Read, produces=(commands.GetSession,))(_about_thread(commands.GetSession))
TO_COMMAND.rule(requests.GoalGet, produces=(commands.GetGoal,))(_about_thread(commands.GetGoal))
TO_COMMAND.rule(requests.GoalClear, produces=(commands.ClearGoal,))(_about_thread(commands.ClearGoal))
TO_COMMAND.rule(requests.Archive, produces=(commands.ArchiveSession,))(_about_thread(commands.ArchiveSession))
TO_COMMAND.rule(requests.Unarchive, produces=(commands.UnarchiveSession,))(_about_thread(commands.UnarchiveSession))
TO_COMMAND.rule(requests.Interrupt, produces=(commands.CancelTurn,))(_about_thread(commands.CancelTurn))
TO_COMMAND.rule(requests.ConfigList, produces=(commands.ListConfig,))(_about_nothing(commands.ListConfig))
TO_COMMAND.rule(requests.ConfigReload, produces=(commands.ReloadConfig,))(_about_nothing(commands.ReloadConfig))
TO_COMMAND.rule(requests.Models, produces=(commands.ListModels,))(_about_nothing(commands.ListModels))
TO_COMMAND.rule(requests.Healthz, produces=(commands.Ping,))(_about_nothing(commands.Ping))
TO_COMMAND.rule(requests.Shutdown, produces=(commands.ShutdownBackend,))(_about_nothing(commands.ShutdownBackend))
TO_COMMAND.rule(requests.LoadedList, produces=(commands.ListSessions,))(
    _about_nothing(commands.ListSessions, kind="loaded")
)
for kind, request in CAPABILITIES.items():
    TO_COMMAND.rule(request, produces=(commands.GetCapabilities,))(
        _about_nothing(commands.GetCapabilities, kind=kind or UNSET)
    )
