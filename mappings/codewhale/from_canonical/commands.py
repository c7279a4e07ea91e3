"""Rules from canonical commands to codewhale requests, in the order of to_canonical/commands.py.

The context of a rule only counts losses. Commands without a form in codewhale come last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import replace

from dragoman.mappings.canonical import Command, Unmapped, commands
from dragoman.mappings.canonical.values import Ext, Item, Message, attachments, flatten
from dragoman.mappings.codewhale.ids import thread_id, write_id
from dragoman.mappings.codewhale.images import NOT_INLINE, as_image
from dragoman.mappings.codewhale.vocabulary import CAPABILITIES, TURN_OPTIONS, carried, given, keep
from dragoman.mappings.codewhale.wire import requests
from dragoman.mappings.codewhale.wire.values import Answer, InlineImage
from dragoman.mappings.extras import as_json, raw, read_raw
from dragoman.mappings.losses import CLIENT_DETAILS, TEXT_INPUT, Losses
from dragoman.mappings.rules import Emulated, Lossy, Nothing, Rules
from dragoman.mappings.untyped import decode_untyped

FROM_COMMAND = Rules[[Losses], requests.RequestBase]("canonical commands -> codewhale")

Requests = tuple[requests.RequestBase, ...]

P = TypeVar("P", bound=msgspec.Struct)

VERSIONS: dict[bytes, Any] = {b"null": UNSET, b'""': None}
"""Raw `jsonrpc` in `ext` -> the member to write, for requests that did not write "2.0"."""


def _call(kind: type[requests.RequestBase], command: Any, params: object = UNSET) -> Requests:
    """Return a request; its method name is the one that a codewhale client used, else the usual name."""
    make: Any = kind
    method = given(command.ext, "method", str, kind.spelling.usual)
    jsonrpc = VERSIONS.get(bytes(carried(command.ext, "jsonrpc") or b""), "2.0")
    if params is UNSET and method == kind.spelling.group:
        params = requests.NoParams()
    return (make(jsonrpc=jsonrpc, id=write_id(command.request), method=method, params=params),)


def _ignored(ext: Ext | None) -> Raw | UnsetType:
    params = carried(ext, "params")
    return UNSET if params is None else params


def _params(ext: Ext | None, shape: type[P], usual: P | UnsetType | None) -> P | UnsetType | None:
    """Return the params that the client wrote, if `ext` has them; else `usual`."""
    params = carried(ext, "params")
    if params is None:
        return usual
    return None if bytes(params) == b"null" else given(ext, "params", shape, usual)


def _thread(command: Command) -> str:
    ext = None if isinstance(command, Unmapped) else command.ext
    return given(ext, "thread_id", str, thread_id(command.session))


@FROM_COMMAND.rule(
    commands.GetCapabilities, produces=tuple(CAPABILITIES.values()), fidelity=Lossy(("session",))
)  # capabilities belong to the server, not to a thread
def get_capabilities(command: commands.GetCapabilities, _context: Losses) -> Requests:
    kind = CAPABILITIES.get(given(command.ext, "kind", str, ""), requests.Capabilities)
    return _call(kind, command, _ignored(command.ext))


@FROM_COMMAND.rule(
    commands.OpenSession, produces=(requests.Start, requests.Create), fidelity=Lossy(("title", *CLIENT_DETAILS))
)
def open_session(command: commands.OpenSession, _context: Losses) -> Requests:
    if given(command.ext, "kind", str, "") == "create":
        usual = UNSET if command.metadata is UNSET else requests.Create.Params(metadata=command.metadata)
        return _call(requests.Create, command, _params(command.ext, requests.Create.Params, usual))
    usual_start = requests.Start.Params(persist_extended_history=False)
    params = _params(
        command.ext, requests.Start.Params, usual_start if carried(command.ext, "absent") is None else UNSET
    )
    if command.model or command.cwd:
        start = params if isinstance(params, requests.Start.Params) else usual_start
        params = replace(start, model=start.model or command.model or None, cwd=start.cwd or command.cwd or None)
    return _call(requests.Start, command, params)


@FROM_COMMAND.rule(commands.ResumeSession, produces=(requests.Resume,), fidelity=Lossy(CLIENT_DETAILS))
def resume_session(command: commands.ResumeSession, _context: Losses) -> Requests:
    thread = _thread(command)
    usual = requests.Resume.Params(thread_id=thread, persist_extended_history=False)
    params = given(command.ext, "params", requests.Resume.Params, usual)
    return _call(requests.Resume, command, replace(params, thread_id=thread))


def history_for_resume(items: Sequence[Item]) -> Ext | None:
    """Return the ext of a ResumeSession that adds history items of another session to a thread.

    Texts are blocks, because a 0.10.2 refuses other forms (docs/dialects/codewhale.md, sections 2.3 and 12).
    """
    messages = [item for item in items if isinstance(item, Message)]
    history = [raw({"role": item.role, "content": [{"type": "text", "text": item.text}]}) for item in messages]
    return keep(params=requests.Resume.Params(thread_id="", history=history, persist_extended_history=False))


def changes_thread(command: commands.ResumeSession, _opening: commands.OpenSession | None) -> bool:
    """Return True if a client's resume changes the thread: its model, its history or another setting."""
    params = given(command.ext, "params", requests.Resume.Params, None)
    return params is not None and params != requests.Resume.Params(
        thread_id=params.thread_id,
        cwd=params.cwd,
        persist_extended_history=params.persist_extended_history,
        operation_key=params.operation_key,
    )


def history_length(command: commands.ResumeSession) -> int:
    """Return the number of history items in a client's resume."""
    params = given(command.ext, "params", requests.Resume.Params, None)
    return len(params.history or ()) if params is not None else 0


@FROM_COMMAND.rule(commands.ForkSession, produces=(requests.Fork,))
def fork_session(command: commands.ForkSession, _context: Losses) -> Requests:
    thread = _thread(command)
    usual = requests.Fork.Params(thread_id=thread, persist_extended_history=False)
    params = given(command.ext, "params", requests.Fork.Params, usual)
    return _call(requests.Fork, command, replace(params, thread_id=thread))


@FROM_COMMAND.rule(
    commands.ListSessions, produces=(requests.List, requests.LoadedList), fidelity=Lossy(("cursor", "query"))
)
def list_sessions(command: commands.ListSessions, _context: Losses) -> Requests:
    if given(command.ext, "kind", str, "") == "loaded":
        return _call(requests.LoadedList, command, _ignored(command.ext))
    usual = requests.List.Params.asking(command.limit, command.archived)
    return _call(requests.List, command, _params(command.ext, requests.List.Params, usual))


@FROM_COMMAND.rule(commands.RenameSession, produces=(requests.SetName,))
def rename_session(command: commands.RenameSession, _context: Losses) -> Requests:
    return _call(requests.SetName, command, requests.SetName.Params(thread_id=_thread(command), name=command.title))


@FROM_COMMAND.rule(commands.SetGoal, produces=(requests.GoalSet,))
def set_goal(command: commands.SetGoal, _context: Losses) -> Requests:
    params = requests.GoalSet.Params(
        thread_id=_thread(command), objective=command.objective, token_budget=command.token_budget
    )
    return _call(requests.GoalSet, command, params)


ONLY_GOALS = "codewhale writes only its own goals"


@FROM_COMMAND.rule(commands.StoreWrite, produces=(requests.GoalProgress,), fidelity=Nothing(ONLY_GOALS))
def store_write(command: commands.StoreWrite, context: Losses) -> Requests:
    """Return the only write of this dialect, goal progress; a write of another dialect is lost."""
    is_progress = command.method == requests.GoalProgress.spelling.kind
    params = read_raw(command.params, requests.GoalProgress.Params) if is_progress else None
    if params is None:
        context.lose(command, why=ONLY_GOALS)
        return ()
    return _call(requests.GoalProgress, command, replace(params, thread_id=_thread(command)))


@FROM_COMMAND.rule(
    commands.SubmitInput,
    produces=(requests.Message,),
    fidelity=TEXT_INPUT,
)
def submit_input(command: commands.SubmitInput, context: Losses) -> Requests:
    images = [as_image(segment) for segment in attachments(command.segments)]
    for _ in range(images.count(None)):
        context.lose(command, "segments", NOT_INLINE)
    params = requests.Message.Params(
        thread_id=_thread(command),
        input=flatten(command.segments),
        images=tuple(image for image in images if image is not None),
        **_turn_options(command.ext),
    )
    return _call(requests.Message, command, params)


def _turn_options(ext: Ext | None) -> dict[str, Any]:
    return {name: given(ext, name, shape, None) for name, shape in TURN_OPTIONS.items()}


SERVERS = Lossy(("session",))  # a setting belongs to the server, not to a thread


@FROM_COMMAND.rule(commands.GetConfig, produces=(requests.ConfigGet,), fidelity=SERVERS)
def get_config(command: commands.GetConfig, _context: Losses) -> Requests:
    return _call(requests.ConfigGet, command, requests.KeyParams(key=command.key))


@FROM_COMMAND.rule(commands.SetConfig, produces=(requests.ConfigSet,), fidelity=SERVERS)
def set_config(command: commands.SetConfig, _context: Losses) -> Requests:
    return _call(requests.ConfigSet, command, requests.ConfigSet.Params(key=command.key, value=command.value))


@FROM_COMMAND.rule(commands.UnsetConfig, produces=(requests.ConfigUnset,), fidelity=SERVERS)
def unset_config(command: commands.UnsetConfig, _context: Losses) -> Requests:
    return _call(requests.ConfigUnset, command, requests.KeyParams(key=command.key))


@FROM_COMMAND.rule(
    commands.AnswerInteraction,
    produces=(requests.SubmitUserInput,),
    fidelity=Lossy(("session", "kind", "values", "declined")),  # an answer is a string
)
def answer_interaction(command: commands.AnswerInteraction, _context: Losses) -> Requests:
    answers = given(command.ext, "answers", list[Answer], [])
    if not answers and command.values is not UNSET:
        values = [(name, _text(value)) for name, value in _values(command.values)]
        answers = [Answer(id=name, label=text, value=text) for name, text in values]
    params = requests.SubmitUserInput.Params(request_id=command.question, answers=answers)
    return _call(requests.SubmitUserInput, command, params)


def _values(values: Raw) -> list[tuple[str, Any]]:
    decoded = decode_untyped(values)
    return list(decoded.items()) if isinstance(decoded, dict) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else as_json(value)


@FROM_COMMAND.rule(commands.PromptOnce, produces=(requests.Prompt,))
def prompt_once(command: commands.PromptOnce, _context: Losses) -> Requests:
    params = requests.Prompt.Params(
        thread_id=_thread(command) or None,
        prompt=command.prompt,
        model=command.model or None,
        images=given(command.ext, "images", tuple[InlineImage, ...], ()),
        **_turn_options(command.ext),
    )
    return _call(requests.Prompt, command, params)


# -- commands whose only param is a thread, or that have no params -----------------------------------------


def _about_thread(kind: type[requests.RequestBase]) -> Callable[[Command, Losses], Requests]:
    def rule(command: Command, _context: Losses) -> Requests:
        return _call(kind, command, requests.OfThread(thread_id=_thread(command)))

    return rule


def _about_nothing(kind: type[requests.RequestBase]) -> Callable[[Any, Losses], Requests]:
    def rule(command: Any, _context: Losses) -> Requests:
        return _call(kind, command, _ignored(command.ext))

    return rule


WHOLE = Emulated("thread/read, which tells all of it")
FROM_COMMAND.rule(commands.GetSession, produces=(requests.Read,))(_about_thread(requests.Read))
FROM_COMMAND.rule(commands.GetHistory, produces=(requests.Read,), fidelity=WHOLE)(_about_thread(requests.Read))
FROM_COMMAND.rule(commands.GetGoal, produces=(requests.GoalGet,))(_about_thread(requests.GoalGet))
FROM_COMMAND.rule(commands.ClearGoal, produces=(requests.GoalClear,))(_about_thread(requests.GoalClear))
FROM_COMMAND.rule(commands.ArchiveSession, produces=(requests.Archive,))(_about_thread(requests.Archive))
FROM_COMMAND.rule(commands.UnarchiveSession, produces=(requests.Unarchive,))(_about_thread(requests.Unarchive))
FROM_COMMAND.rule(commands.CancelTurn, produces=(requests.Interrupt,))(_about_thread(requests.Interrupt))
FROM_COMMAND.rule(commands.Ping, produces=(requests.Healthz,))(_about_nothing(requests.Healthz))
for source, kind in (
    (commands.ListConfig, requests.ConfigList),
    (commands.ReloadConfig, requests.ConfigReload),
    (commands.ListModels, requests.Models),
    (commands.ShutdownBackend, requests.Shutdown),
):
    FROM_COMMAND.rule(source, produces=(kind,), fidelity=SERVERS)(_about_nothing(kind))


# -- commands without a form in codewhale -----------------------------------------------------------

FROM_COMMAND.none("codewhale has no notes for the model", commands.InjectNote)
FROM_COMMAND.none("codewhale cannot pause", commands.PauseTurn, commands.ResumeTurn)
FROM_COMMAND.none("codewhale has no request to compact", commands.Compact)
FROM_COMMAND.none("codewhale has no method that answers an approval", commands.AnswerApproval)
FROM_COMMAND.none("codewhale asks for no one-time codes", commands.AnswerOtp)
FROM_COMMAND.none("codewhale has no completions", commands.ListCompletions)
FROM_COMMAND.none("codewhale can archive a thread, but not delete one", commands.DeleteSession)
FROM_COMMAND.none("a codewhale answers -32601", Unmapped)
