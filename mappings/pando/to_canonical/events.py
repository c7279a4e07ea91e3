"""Rules from pando messages and replies to canonical events, in the order of docs/dialects/pando.md, section 4.

`envelope` and `place` read the publisher, the time and the session, which go into the burst. The meaning of a reply
depends on its command. Here it becomes a Reply with a raw result; the client translator makes the typed answer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman.mappings.canonical import Event, Events, events
from dragoman.mappings.canonical.values import Ext, Failure, Message, Text, Usage
from dragoman.mappings.codec import MALFORMED
from dragoman.mappings.dialect import BurstFacts
from dragoman.mappings.extras import raw
from dragoman.mappings.jsonrpc import TYPED_ANSWERS
from dragoman.mappings.pando.to_canonical.replies import summary
from dragoman.mappings.pando.vocabulary import CANONICAL_ROLE, CODE_OF_CAUSE, cause_of, keep
from dragoman.mappings.pando.wire import topics as wire
from dragoman.mappings.pando.wire.replies import Reply
from dragoman.mappings.pando.wire.values import nanoseconds
from dragoman.mappings.rules import Rules

TO_EVENT = Rules[[], Event]("pando -> canonical events")


def envelope(message: Any) -> BurstFacts:
    """Return the request id of a reply, or the session, publisher and time of a published message."""
    if type(message) is Reply:
        return (message.id, "", None), 0
    payload = message.payload
    session = payload.id if type(payload) is wire.Session else getattr(payload, "session_id", "")
    publisher = _publisher(message.instance_id, message.project_id, message.session_id)
    return ("", session, publisher), nanoseconds(message.timestamp) or 0


@lru_cache(maxsize=64)  # one publisher sends thousands of messages
def _publisher(instance: str, project: str, session: str | UnsetType) -> Ext | None:
    return keep(instanceId=instance, projectId=project or UNSET, sessionId=session or UNSET)


@TO_EVENT.rule(wire.SessionList, produces=(events.SessionsListed,))
def session_list(message: wire.SessionList) -> Events:
    rows = message.payload.sessions
    ext = keep(sessions=UNSET if rows is not None else None)
    return (events.SessionsListed(request="", sessions=tuple(map(summary, rows or ())), ext=ext),)


def _described(make: Callable[..., Event]) -> Callable[[Any], Events]:
    def rule(message: Any) -> Events:
        return (make(session=summary(message.payload)),)

    return rule


for topic, kind in (
    (wire.SessionUpdate, events.SessionUpdated),
    (wire.SessionActivated, events.SessionActivated),
    (wire.SessionDeleted, events.SessionClosed),
):
    TO_EVENT.rule(topic, produces=(kind,))(_described(kind))


@TO_EVENT.rule(wire.MessageAppend, produces=(events.MessageAppended,))
def message_append(message: wire.MessageAppend) -> Events:
    payload = message.payload
    role = CANONICAL_ROLE.get(payload.role, "system")
    segments = (Text(text=payload.content),) if role == "user" and payload.content else ()
    ext = keep(role=UNSET if role == payload.role and role != "assistant" else payload.role)
    return (
        events.MessageAppended(
            message=Message(role=role, text=payload.content, id=payload.message_id, segments=segments, ext=ext)
        ),
    )


TO_EVENT.becomes(wire.LlmStart, events.ModelTurnStarted())


@TO_EVENT.rule(wire.LlmToken, produces=(events.TextDelta,))
def llm_token(message: wire.LlmToken) -> Events:
    return (events.TextDelta(text=message.payload.token),)


@TO_EVENT.rule(wire.LlmEnd, produces=(events.TurnEnded,))
def llm_end(message: wire.LlmEnd) -> Events:
    payload = message.payload
    tokens_in, tokens_out = max(payload.tokens_in, 0), max(payload.tokens_out, 0)  # Go's counts have a sign
    usage = Usage(input_tokens=tokens_in, output_tokens=tokens_out) if tokens_in or tokens_out else None
    return (events.TurnEnded(end="completed", usage=usage),)  # released primaries send zeros


@TO_EVENT.rule(wire.ToolStart, produces=(events.ToolCallStarted, events.ToolCallArguments))
def tool_start(message: wire.ToolStart) -> Events:
    payload = message.payload
    if not payload.params:
        return (events.ToolCallStarted(call=payload.call_id, name=payload.tool_name),)
    arguments = _arguments(payload.params)
    ext = keep(params=payload.params if arguments != payload.params else UNSET)
    return (events.ToolCallArguments(call=payload.call_id, name=payload.tool_name, json=arguments, done=True, ext=ext),)


def _arguments(params: str) -> str:
    """Return the arguments of a call as JSON text.

    With a model of Anthropic, released programs publish each fragment as a JSON string, quotes included.
    """
    # A pattern for a literal would take 0.15 s for each megabyte. NUL and SOH, which are in no JSON, stand for escapes.
    literals = params.replace(r"\\", "\0").replace(r"\"", "\1")
    if literals[:1] + literals[-1:] != '""' or "\0" in params or "\1" in params:
        return params
    text = literals[1:-1].replace('""', "").replace("\1", r"\"").replace("\0", r"\\")
    try:
        joined = msgspec.json.decode(f'"{text}"', type=str)
        is_object = joined.lstrip().startswith("{") and msgspec.json.decode(joined, type=Raw)
    except MALFORMED:
        return params
    return joined if is_object else params


@TO_EVENT.rule(wire.ToolEnd, produces=(events.ToolCallFinished,))
def tool_end(message: wire.ToolEnd) -> Events:
    payload = message.payload
    return (
        events.ToolCallFinished(
            call=payload.call_id, name=payload.tool_name, output=payload.result, is_error=payload.is_error
        ),
    )


@TO_EVENT.rule(wire.InstanceHeartbeat, produces=(events.Heartbeat,))
def instance_heartbeat(message: wire.InstanceHeartbeat) -> Events:
    return (events.Heartbeat(report=raw(message.payload)),)


@TO_EVENT.rule(wire.InstanceShutdown, produces=(events.BackendShutdown,))
def instance_shutdown(message: wire.InstanceShutdown) -> Events:
    payload = message.payload
    reason = "" if payload.reason is UNSET else payload.reason
    return (events.BackendShutdown(reason=reason, ext=keep(instance_id=payload.instance_id)),)


@TO_EVENT.rule(wire.StoreChange, produces=(events.StoreChanged,))
def store_change(message: wire.StoreChange) -> Events:
    return (events.StoreChanged(topic=message.topic, change=raw(message.payload)),)


@TO_EVENT.rule(Reply, produces=(events.Reply,), answers=TYPED_ANSWERS)
def reply(message: Reply) -> Events:
    problem = message.error
    if problem is UNSET or problem is None:
        return (events.Reply(request=message.id, result=message.result),)
    cause = cause_of(problem.code, problem.message)
    ext = keep(code=UNSET if CODE_OF_CAUSE[cause] == problem.code else problem.code)
    return (events.Reply(request=message.id, failure=Failure(cause=cause, text=problem.message, ext=ext)),)
