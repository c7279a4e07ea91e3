"""Legal samples of canonical types: consistent, with values from closed sets, in whole units of time.

`samples.py` makes them by reflection. What reflection cannot know stands here: the value of a field (`VALUES`) and what
must fit together (`FITTING`), each with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, inspect
from msgspec.structs import replace

from dragoman.mappings.canonical import commands, events
from dragoman.mappings.canonical.values import Failure, Message, Text, flatten
from dragoman.mappings.reflection import struct_type
from tests.samples import full, least

SESSION = "0b0e9b0e-0000-4000-8000-00000000000a"
MS = 1_000_000  # ns

A_UUID = "ids of sessions, messages and segments are UUIDs (docs/translation.md, rule 3.1)"
WHOLE_MS = "times differ in precision (docs/translation.md, rule 3.12): whole milliseconds fit all of them"
LINKS = "it is the link that is asked: this command names no session"

VALUES: dict[str, tuple[Any, str]] = {
    "*.at": (7 * MS, WHOLE_MS),
    "*.updated_at": (7 * MS, WHOLE_MS),
    "*.session": (SESSION, A_UUID),
    "Message.id": (SESSION, A_UUID),
    "CompactionDone.segment": (SESSION, A_UUID),
    "SessionOpened.agent": (SESSION, "smooth clients name agents by UUID (docs/dialects/smooth.md, section 3)"),
    "Ping.session": ("", LINKS),
    "OpenSession.session": ("", "a session that is not there yet has no name"),
    "ListSessions.session": ("", "all sessions are meant"),
    "ResumeSession.session": (SESSION, "it names the session to go on with"),
    "RunStarted.kind": ("wakeup", "one of the five reasons (values of RunStarted)"),
    "Alert.source": ("worker", "only pods raise alerts: one of the four parts of a pod"),
    "CompletionsListed.kind": ("file", "one of the three kinds of completions"),
    "ListCompletions.kind": ("file", "one of the three kinds of completions"),
    "OtpRequired.channels": (("email", "sms"), "one-time codes go by e-mail or SMS"),
    "OtpSent.channel": ("sms", "one-time codes go by e-mail or SMS"),
    "OtpInvalid.reason": ("EXPIRED", "only smooth asks for codes: one of its four reasons"),
    "ImageAttachment.detail": ("low", "only smooth has images: one of its three degrees"),
    "StoreChanged.topic": ("db.session.created", "only pando tells of its store: one of its topics"),
    "StoreChanged.change": (
        Raw(
            b'{"instance_id":"i","path":"/p","topic":"db.session.created","payload":{"method":"CreateSession"},'
            b'"timestamp":"2026-05-09T21:28:20Z"}'
        ),
        "a change record of pando",
    ),
    "McpStartup.report": (
        Raw(b'{"event":"mcp_startup_update","update":{"server_name":"s","status":"ready"}}'),
        "only codewhale reports MCP servers: one of its two frames",
    ),
    "GoalUpdated.goal": (
        Raw(
            b'{"thread_id":"t","goal_id":"g","objective":"o","status":"active","tokens_used":0,"time_used_seconds":0,'
            b'"created_at":1,"updated_at":2}'
        ),
        "only codewhale has goals",
    ),
    "LifecycleReport.report": (
        Raw(b'{"type":"approval_lifecycle","approval_id":"a","phase":"p","reason":null}'),
        "only old releases of codewhale print hook lines: one of them",
    ),
    "TurnAccepted.request": ("r", "it answers a command"),
    "Pong.request": ("r", "it answers a command"),
    "StateSnapshot.state": (Raw(b'{"rawResponse":{"a":[1,null]}}'), "the state of a node has four documented keys"),
    "ToolCallArguments.json": ('{"a":1}', "arguments are JSON text"),
    "ToolCall.arguments": ('{"a":1}', "arguments are JSON text"),
}
"""`TYPE.field`, or `*.field` for all types -> a legal value and why the made one is none."""

ALWAYS = {"ResumeSession.session", "ListCompletions.kind", "TurnAccepted.request", "Pong.request"}
"""Said by the least sample too, though the type has a default."""


def legal_samples(kind: type[Any]) -> list[Any]:
    """Return legal samples: a minimal one, a full one, and the full one with each choice, flag and option changed."""
    made = [least(kind), *_variants(full(kind))]
    fitting = FITTING.get(kind, _as_made)
    found = [plain(fit) for item in made for fit in fitting(_valued(item))]
    return list({msgspec.json.encode(item): item for item in found}.values())


def plain(value: Any) -> Any:
    """Return `value` without the fields that only its own dialect reads: every `ext`, at any depth."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if not isinstance(value, Struct):
        return value
    return replace(value, **{f: None if f == "ext" else plain(getattr(value, f)) for f in value.__struct_fields__})


def _valued(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_valued, value))
    if not isinstance(value, Struct):
        return value
    name = type(value).__name__
    changes = {}
    for field in msgspec.structs.fields(value):
        said = getattr(value, field.name)
        where = f"{name}.{field.name}"
        known = VALUES.get(where) or VALUES.get(f"*.{field.name}")
        if known is not None and (isinstance(said, type(known[0])) or where in ALWAYS):
            changes[field.name] = known[0] if said or where in ALWAYS else said
        else:
            changes[field.name] = _valued(said)
    return replace(value, **changes)


# -- each choice the other way ----------------------------------------------------------------------


def _variants(value: Any) -> Iterator[Any]:
    yield value
    yield from _others(value, inspect.type_info(type(value)))


def _others(value: Any, shape: inspect.Type) -> Iterator[Any]:
    if isinstance(value, Struct):
        for field in struct_type(type(value)).fields:
            for other in _others(getattr(value, field.name), field.type):
                yield replace(value, **{field.name: other})
        return
    match shape:
        case inspect.LiteralType():
            yield from (other for other in shape.values if other != value)
        case inspect.BoolType():
            yield not value
        case inspect.VarTupleType():
            for i, member in enumerate(value):
                yield from ((*value[:i], other, *value[i + 1 :]) for other in _others(member, shape.item_type))
        case inspect.UnionType():
            for member in shape.types:
                if isinstance(member, inspect.NoneType):
                    yield None
                elif not isinstance(member, inspect.StructType):
                    yield from _others(value, member)


# -- what must fit together -------------------------------------------------------------------------


def _as_made(item: Any) -> Iterator[Any]:
    yield item


def _message(message: Message) -> Message:
    """Sample a message whose text matches its segments; only users' messages have segments."""
    if message.role != "user":
        return replace(message, segments=())
    return replace(message, text=flatten(message.segments)) if message.segments else message


def _appended(event: events.MessageAppended) -> Iterator[events.MessageAppended]:
    """Sample a message that is appended; text of the assistant comes as a block instead."""
    if event.message.role != "assistant":
        yield replace(event, message=_message(event.message))


def _history(event: events.HistorySnapshot) -> Iterator[events.HistorySnapshot]:
    """Sample a requested page, a whole history, or a rotation, for clients that know status and backend already."""
    items: list[Any] = []
    for item in event.items:
        if isinstance(item, Message):
            items += [_message(replace(item, role=role)) for role in ("user", "assistant", "system")]
        else:
            items.append(item)
    said = replace(event, items=tuple(items))
    whole = replace(said, request="", next_cursor=None)
    yield replace(whole, status=None, backend=None) if whole.rotated else whole
    yield replace(said, request="r", status=None, backend=None, rotated=False)


def _reply(event: events.Reply) -> Iterator[events.Reply]:
    """Sample a reply with a failure, a result, or neither."""
    yield replace(event, failure=None)
    if event.failure is not None:
        yield replace(event, result=UNSET)


def _ended(event: events.TurnEnded) -> Iterator[events.TurnEnded]:
    """Sample the end of a turn; only a failed turn has a reason."""
    failure = event.failure or Failure(cause="internal", text="text")
    yield replace(event, failure=failure if event.end == "failed" else None)


def _input(command: commands.SubmitInput) -> Iterator[commands.SubmitInput]:
    """Sample an input that is not empty."""
    yield replace(command, segments=command.segments or (Text(text="text"),))


def _interaction(command: commands.AnswerInteraction) -> Iterator[commands.AnswerInteraction]:
    """Sample an answer to a form, filled in or declined."""
    yield replace(command, values=UNSET) if command.declined else command


FITTING: dict[type, Callable[[Any], Iterator[Any]]] = {
    events.MessageAppended: _appended,
    events.HistorySnapshot: _history,
    events.Reply: _reply,
    events.TurnEnded: _ended,
    commands.SubmitInput: _input,
    commands.AnswerInteraction: _interaction,
}
