"""Rules from canonical events to pando messages and replies, in the order of to_canonical/events.py.

Events with a `request` answer one call; all others are published. Each wire message is written by exactly one kind of
event: TurnEnded writes `llm.end`, TextDelta the text. pando has no form for reasoning. Events without a form in pando
come last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from dragoman.mappings.canonical import Unmapped, commands, events
from dragoman.mappings.canonical.values import Failure, flatten
from dragoman.mappings.extras import raw, read_raw
from dragoman.mappings.in_words import IN_WORDS
from dragoman.mappings.jsonrpc import NO_METHOD
from dragoman.mappings.losses import NOT_IN_A_MESSAGE_LIST
from dragoman.mappings.pando.from_canonical import replies
from dragoman.mappings.pando.from_canonical.context import Context, Messages
from dragoman.mappings.pando.vocabulary import CODE_OF_CAUSE, NO_METHOD_TEXT, given
from dragoman.mappings.pando.wire import topics as wire
from dragoman.mappings.pando.wire.replies import Done, Problem, Reply
from dragoman.mappings.pando.wire.values import duration, rfc3339
from dragoman.mappings.rules import Emulated, Lossy, Rules

FROM_EVENT = Rules[[Context], Struct | bytes]("canonical events -> pando")


def _answer(context: Context, request: str, result: Any) -> Messages:
    return (Reply(id=context.request or request, result=raw(result)),)


@FROM_EVENT.rule(
    events.SessionsListed,
    produces=(wire.SessionList, Reply),
    fidelity=Lossy(("next_cursor", "sessions.status", "sessions.archived")),
)
def sessions_listed(event: events.SessionsListed, context: Context) -> Messages:
    if event.request or context.request:
        return _answer(context, event.request, replies.listed(event, context.asked, context.instance))
    rows = None if event.ext and "pando.sessions" in event.ext else [replies.row(summary) for summary in event.sessions]
    return (wire.SessionList(payload=wire.SessionList.Payload(sessions=rows), **context.envelope),)


def _described(make: Callable[..., Struct]) -> Callable[[Any, Context], Messages]:
    def rule(event: Any, context: Context) -> Messages:
        return (make(payload=replies.row(event.session), **context.envelope),)

    return rule


for kind, topic in (
    (events.SessionUpdated, wire.SessionUpdate),
    (events.SessionActivated, wire.SessionActivated),
    (events.SessionClosed, wire.SessionDeleted),
):
    FROM_EVENT.rule(kind, produces=(topic,), fidelity=Lossy(("session.status", "session.archived")))(_described(topic))


@FROM_EVENT.rule(
    events.MessageAppended,
    produces=(wire.MessageAppend,),
    fidelity=Lossy(("message.at", "message.turn", "message.segments")),
)
def message_appended(event: events.MessageAppended, context: Context) -> Messages:
    message = event.message
    role = given(message.ext, "role", str, message.role)
    if message.role == "assistant" and not (message.ext and "pando.role" in message.ext):
        context.lose(event, why="the tokens carry the assistant's text")
        return ()
    payload = wire.MessageAppend.Payload(
        session_id=context.session, message_id=message.id, role=role, content=message.text
    )
    return (wire.MessageAppend(payload=payload, **context.envelope),)


@FROM_EVENT.rule(events.ModelTurnStarted, produces=(wire.LlmStart,), fidelity=Lossy(("index",)))
def model_turn_started(_event: events.ModelTurnStarted, context: Context) -> Messages:
    if not context.begin_run():
        return ()
    return (wire.LlmStart(payload=wire.LlmStart.Payload(session_id=context.session), **context.envelope),)


@FROM_EVENT.rule(events.TextDelta, produces=(wire.LlmToken, wire.LlmStart))
def text_delta(event: events.TextDelta, context: Context) -> Messages:
    token = wire.LlmToken(
        payload=wire.LlmToken.Payload(session_id=context.session, token=event.text), **context.envelope
    )
    return (*_begun(context), token)


def _begun(context: Context) -> Messages:
    """Return `llm.start` if it was not written for this turn, whose start was missed or never came."""
    return () if context.has_begun else model_turn_started(events.ModelTurnStarted(), context)


OTHER_COUNTERS = ("usage.cache_read_tokens", "usage.cost_usd")


@FROM_EVENT.rule(
    events.TurnEnded,
    produces=(wire.LlmStart, wire.LlmEnd, wire.MessageAppend, wire.SessionUpdate),
    # all six ends become one form with two counters; the text of a failure is a system message before it
    fidelity=Lossy(
        ("end", "text", "message", *OTHER_COUNTERS, "failure"),
        lost_by=lambda _event: ("end", *OTHER_COUNTERS, "failure.cause"),
    ),
)
def turn_ended(event: events.TurnEnded, context: Context) -> Messages:
    usage = event.usage
    ended = wire.LlmEnd.Payload(
        session_id=context.session,
        tokens_in=(usage.input_tokens or 0) if usage else 0,
        tokens_out=(usage.output_tokens or 0) if usage else 0,
    )
    begun, end = _begun(context), wire.LlmEnd(payload=ended, **context.envelope)
    if event.end != "failed":
        context.take_error(None)
        return (*begun, end, *context.rolled_back()) if event.end == "rolled_back" else (*begun, end)
    text = event.failure.text if event.failure is not None else "the turn failed"
    context.take_error(None, shown=text)
    cause = wire.MessageAppend.Payload(
        session_id=context.session, message_id=event.message, role="system", content=text
    )
    return (*begun, wire.MessageAppend(payload=cause, **context.envelope), end)


@FROM_EVENT.rule(events.ErrorReported, fidelity=Emulated("the system message before llm.end, if the turn fails for it"))
def error_reported(event: events.ErrorReported, context: Context) -> Messages:
    context.take_error(event)
    return ()


@FROM_EVENT.rule(events.ToolCallStarted, produces=(wire.ToolStart, wire.LlmStart))
def tool_call_started(event: events.ToolCallStarted, context: Context) -> Messages:
    call = wire.ToolStart.Payload(session_id=context.session, tool_name=event.name, call_id=event.call)
    return (*_begun(context), wire.ToolStart(payload=call, **context.envelope))


@FROM_EVENT.rule(events.ToolCallArguments, produces=(wire.ToolStart,))
def tool_call_arguments(event: events.ToolCallArguments, context: Context) -> Messages:
    if not event.done:
        return ()
    params = given(event.ext, "params", str, event.json)
    call = wire.ToolStart.Payload(session_id=context.session, tool_name=event.name, call_id=event.call, params=params)
    return (wire.ToolStart(payload=call, **context.envelope),)


@FROM_EVENT.rule(events.ToolCallFinished, produces=(wire.ToolEnd, wire.LlmStart), fidelity=Lossy(("summary",)))
def tool_call_finished(event: events.ToolCallFinished, context: Context) -> Messages:
    result = wire.ToolEnd.Payload(
        session_id=context.session,
        tool_name=event.name,
        call_id=event.call,
        is_error=event.is_error,
        result=event.output if event.output is not None else event.summary or "",
    )
    return (*_begun(context), wire.ToolEnd(payload=result, **context.envelope))


@FROM_EVENT.rule(
    events.QuestionAsked,
    produces=(wire.LlmStart, wire.LlmToken, wire.LlmEnd),
    fidelity=Emulated("llm.token, and llm.end where the turn waits"),
)
def question_asked(event: events.QuestionAsked, context: Context) -> Messages:
    """Publish a question in words (docs/translation.md, rule 3.3); the run ends for viewers, the turn continues."""
    start = model_turn_started(events.ModelTurnStarted(), context)
    words = text_delta(events.TextDelta(text=event.paragraph), context)
    if not event.parked and context.turn:
        return (*start, *words)
    context.started = False  # the turn goes on in another run
    ended = wire.LlmEnd.Payload(session_id=context.session, tokens_in=0, tokens_out=0)
    return (*start, *words, wire.LlmEnd(payload=ended, **context.envelope))


@FROM_EVENT.rule(
    events.QuestionAnswered, produces=(wire.MessageAppend, wire.LlmStart), fidelity=Emulated("a run of its own")
)
def question_answered(event: events.QuestionAnswered, context: Context) -> Messages:
    """Publish the text of the answer, and the start of the next run if the question ended one."""
    start = model_turn_started(events.ModelTurnStarted(), context)
    if not event.segments:
        return start
    payload = wire.MessageAppend.Payload(
        session_id=context.session,
        message_id=f"{event.question or context.turn}/{event.number}",  # unique: no store has the message
        role="user",
        content=flatten(event.segments),
    )
    return wire.MessageAppend(payload=payload, **context.envelope), *start


@FROM_EVENT.rule(events.Heartbeat, produces=(wire.InstanceHeartbeat,), fidelity=Lossy(("report",)))
def heartbeat(event: events.Heartbeat, context: Context) -> Messages:
    return (wire.InstanceHeartbeat(payload=_pulse(event, context), **context.envelope),)


def _pulse(event: events.Heartbeat, context: Context) -> wire.InstanceHeartbeat.Payload:
    """Return the heartbeat of the original pando if the event has it, else one about this gateway."""
    report = read_raw(event.report, wire.InstanceHeartbeat.Payload)
    if report is not None:
        return report
    started = context.instance.started_at
    return wire.InstanceHeartbeat.Payload(
        instance_id=context.instance.id,
        uptime=duration(context.at - started) if started else "",
        started_at=rfc3339(started),
    )


@FROM_EVENT.rule(events.BackendShutdown, produces=(wire.InstanceShutdown,))
def backend_shutdown(event: events.BackendShutdown, context: Context) -> Messages:
    payload = wire.InstanceShutdown.Payload(
        instance_id=given(event.ext, "instance_id", str, context.instance.id), reason=event.reason or UNSET
    )
    return (wire.InstanceShutdown(payload=payload, **context.envelope),)


@FROM_EVENT.rule(events.StoreChanged, produces=(wire.StoreChange,))
def store_changed(event: events.StoreChanged, context: Context) -> Messages:
    try:
        topic: Any = msgspec.convert(event.topic, wire.ChangeTopic)
        change = msgspec.json.decode(event.change, type=wire.StoreChange.Payload)
    except msgspec.DecodeError:
        context.lose(event, why="a change of the store that pando does not know")
        return ()
    return (wire.StoreChange(topic=topic, payload=change, **context.envelope),)


# -- answers to one call ----------------------------------------------------------------------------


@FROM_EVENT.rule(
    events.Reply, produces=(Reply,), fidelity=Lossy(("failure.cause", "failure.text"))
)  # all causes share two error codes, and the text depends on the method
def reply(event: events.Reply, context: Context) -> Messages:
    request = context.request or event.request
    if event.failure is not None:
        return (Reply(id=request, error=_problem(event.failure)),)
    if event.result is UNSET and isinstance(context.asked, commands.CancelTurn | commands.SubmitInput):
        return _answer(context, request, Done())
    if event.result is UNSET and isinstance(context.asked, commands.GetCapabilities):  # of another dialect
        return (Reply(id=request, error=Problem(code=NO_METHOD, message=NO_METHOD_TEXT)),)
    return (Reply(id=request, result=event.result),)


def _problem(failure: Failure) -> Problem:
    code = given(failure.ext, "code", int, CODE_OF_CAUSE[failure.cause])
    return Problem(code=code, message=failure.text)


@FROM_EVENT.rule(events.SessionOpened, produces=(Reply,), fidelity=Lossy(("agent", "status", "title")))
def session_opened(event: events.SessionOpened, context: Context) -> Messages:
    return _answer(context, event.request, replies.opened(event, context.asked, context.at))


@FROM_EVENT.rule(
    events.HistorySnapshot,
    produces=(Reply,),
    fidelity=Lossy((*NOT_IN_A_MESSAGE_LIST, "next_cursor")),
)
def history_snapshot(event: events.HistorySnapshot, context: Context) -> Messages:
    if not event.request:  # a broadcast: it answers no request
        context.lose(event, why="pando clients ask for the messages")
        return ()
    return _answer(context, event.request, replies.history(event))


@FROM_EVENT.rule(events.TurnAccepted, produces=(Reply,))
def turn_accepted(event: events.TurnAccepted, context: Context) -> Messages:
    return _answer(context, event.request, Done())


@FROM_EVENT.rule(events.Pong, produces=(Reply,), fidelity=Lossy(("at",)))
def pong(event: events.Pong, context: Context) -> Messages:
    return _answer(context, event.request, replies.status(event, context.instance, context.at))


@FROM_EVENT.rule(Unmapped, produces=(Raw,))
def unmapped(event: Unmapped, context: Context) -> Messages:
    """Pass on a message with an unknown topic, if it came from pando: subscribers ignore unknown topics."""
    if event.dialect != "pando":
        context.lose(event, why=f"a message of {event.dialect}")
        return ()
    return (event.raw.encode(),)


# -- events that another message carries, or that have no form in pando -----------------------------

FROM_EVENT.carried(events.TextDone, "llm.token")
FROM_EVENT.carried(events.UsageReported, "the counters of llm.end")
FROM_EVENT.carried(events.TurnResult, "llm.end")
FROM_EVENT.carried(events.StatusChanged, "llm.start and llm.end")

for source, how in IN_WORDS.items():
    FROM_EVENT.carried(source, how)

FROM_EVENT.none("pando does not report why a run began", events.RunStarted)
FROM_EVENT.none("pando reports the start of a run, not of each model turn", events.ModelTurnEnded)
FROM_EVENT.none("pando does not report model calls", events.ModelCallStarted, events.ModelCallEnded)
FROM_EVENT.none("pando does not report retries", events.ModelRetry, events.ModelContinuation)
FROM_EVENT.none("pando has no form for reasoning", events.ReasoningStarted, events.ReasoningDelta, events.ReasoningDone)
FROM_EVENT.none("pando has no text outside of the answer", events.Preamble)
FROM_EVENT.none("pando reports a tool's output only when it is complete", events.ToolOutputDelta)
FROM_EVENT.none("pando does not report nodes of a graph", events.StateSnapshot)
FROM_EVENT.none("pando has no alerts", events.Alert)
FROM_EVENT.none(
    "pando does not report compaction", events.CompactionStarted, events.CompactionDone, events.CompactionFailed
)
FROM_EVENT.none("pando does not report memory work", events.MemoryWork)
FROM_EVENT.none("pando does not report MCP servers", events.McpStartup)
FROM_EVENT.none("pando has no goals", events.GoalUpdated, events.GoalCleared)
FROM_EVENT.none("pando has no completions", events.CompletionsListed)
FROM_EVENT.none("pando has no pods", events.PodInspected, events.PodAttached)
FROM_EVENT.none("pando has no hook lines", events.LifecycleReport)
FROM_EVENT.none("pando has no form for gaps", events.Gap)
