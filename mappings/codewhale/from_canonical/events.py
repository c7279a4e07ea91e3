"""Rules from canonical events to codewhale lines, EventFrames and answers, in the order of to_canonical.

Text is streamed in bare lines. Everything else of a turn goes into the `events` of its result, because clients would
show a bare line of reasoning as text. Each wire message is written by exactly one kind of event: TurnEnded writes the
result of a turn, and TurnAccepted writes nothing. Events without a form in codewhale come last.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw

from dragoman.mappings.canonical import Unmapped, events
from dragoman.mappings.canonical.values import ANSWERED, UNBEGUN_TURN, Failure
from dragoman.mappings.codewhale.from_canonical import replies
from dragoman.mappings.codewhale.from_canonical.context import Context, Messages
from dragoman.mappings.codewhale.from_canonical.generations import goal_in
from dragoman.mappings.codewhale.ids import thread_id
from dragoman.mappings.codewhale.vocabulary import (
    CODE_OF_CAUSE,
    FAILED,
    INPUT_REFUSALS,
    INTERRUPTED,
    SEED,
    carried,
    given,
)
from dragoman.mappings.codewhale.wire import frames, lines, results, values
from dragoman.mappings.codewhale.wire.codecs import typed
from dragoman.mappings.extras import raw, read_raw
from dragoman.mappings.in_words import IN_WORDS
from dragoman.mappings.losses import NOT_IN_A_MESSAGE_LIST
from dragoman.mappings.rules import Emulated, Lossy, Rules

FROM_EVENT = Rules[[Context], object]("canonical events -> codewhale")

# -- a response: bare lines -------------------------------------------------------------------------


@FROM_EVENT.rule(
    events.ModelTurnStarted, produces=(lines.ResponseStart, frames.ResponseStart), fidelity=Lossy(("index",))
)
def model_turn_started(event: events.ModelTurnStarted, context: Context) -> Messages:
    if event.ext == UNBEGUN_TURN or not context.starts():  # a server that refuses a turn writes no response
        return ()
    begun = lines.ResponseStart(response_id=context.response_id)
    return (begun,) if context.streams else (begun, frames.ResponseStart(response_id=context.response_id))


@FROM_EVENT.rule(events.TextDelta, produces=(lines.ResponseDelta, frames.ResponseDelta))
def text_delta(event: events.TextDelta, context: Context) -> Messages:
    response = context.response_id
    if not event.text and not context.alone:
        return ()  # a delta must have text (docs/dialects/codewhale.md, section 3)
    if not context.streams:
        return (*_begun(context), frames.ResponseDelta(response_id=response, delta=event.text))
    return (*_begun(context), lines.ResponseDelta(response_id=response, delta=event.text))


def _begun(context: Context) -> Messages:
    """Return `response_start` if it was not written yet."""
    return () if context.alone else model_turn_started(events.ModelTurnStarted(), context)


END_LATER = Lossy(("end",), lost_by=lambda _event: ())
"""The fidelity of the end of a response: its TurnEnded counts an end that has no form."""


@FROM_EVENT.rule(events.TurnResult, produces=(lines.ResponseEnd, frames.ResponseEnd), fidelity=END_LATER)
def turn_result(event: events.TurnResult, context: Context) -> Messages:
    begun = _begun(context) if event.end in ANSWERED else ()
    if not context.ends(event.end):
        return ()
    over = lines.ResponseEnd(response_id=context.response_id)
    return (*begun, over) if context.streams else (*begun, over, frames.ResponseEnd(response_id=context.response_id))


@FROM_EVENT.rule(
    events.LifecycleReport,
    produces=(lines.ToolHook, lines.JobHook, lines.ApprovalHook, lines.FrameHook),
    fidelity=Emulated(f"a line for clients of {SEED}, which later releases do not print"),
)
def lifecycle_report(event: events.LifecycleReport, context: Context) -> Messages:
    hook = read_raw(event.report, HOOKS) if context.alone or context.generation == SEED else None
    if hook is None:
        context.lose(event, why="only the hook mirror of old releases prints such lines")
        return ()
    return (hook,)


HOOKS: Any = lines.ToolHook | lines.JobHook | lines.ApprovalHook | lines.FrameHook


# -- EventFrames ------------------------------------------------------------------------------------


@FROM_EVENT.rule(events.ReasoningDelta, produces=(frames.ResponseDelta,))
def reasoning_delta(event: events.ReasoningDelta, context: Context) -> Messages:
    return (frames.ResponseDelta(response_id=context.response_id, delta=event.text, channel="reasoning"),)


@FROM_EVENT.rule(events.ToolCallArguments, produces=(frames.ToolCallStart,), fidelity=Lossy(("call",)))
def tool_call_arguments(event: events.ToolCallArguments, context: Context) -> Messages:
    if not event.done:
        return ()
    payload = raw(values.FunctionPayload(arguments=event.json))
    return (frames.ToolCallStart(response_id=context.response_id, tool_name=event.name, arguments=payload),)


@FROM_EVENT.rule(events.ToolCallFinished, produces=(frames.ToolCallResult,), fidelity=Lossy(("call", "summary")))
def tool_call_finished(event: events.ToolCallFinished, context: Context) -> Messages:
    text = event.output if event.output is not None else event.summary
    body = raw(text) if text is not None else UNSET
    output = raw(values.FunctionOutput(body=body, success=not event.is_error))
    return (frames.ToolCallResult(response_id=context.response_id, tool_name=event.name, output=output),)


@FROM_EVENT.rule(events.McpStartup, produces=(frames.McpStartupUpdate, frames.McpStartupComplete))
def mcp_startup(event: events.McpStartup, context: Context) -> Messages:
    known: Any = frames.McpStartupUpdate | frames.McpStartupComplete
    frame = read_raw(event.report, known)
    if frame is None:
        context.lose(event, why="a report that codewhale does not know")
        return ()
    return (frame,)


@FROM_EVENT.rule(events.ToolOutputDelta, produces=(frames.ExecOutput,), fidelity=Lossy(("call",)))
def tool_output_delta(event: events.ToolOutputDelta, _context: Context) -> Messages:
    return (frames.ExecOutput(command="", delta=event.text),)


@FROM_EVENT.rule(events.RunStarted, produces=(frames.TurnStarted,), fidelity=Lossy(("kind",)))
def run_started(event: events.RunStarted, context: Context) -> Messages:
    if not context.alone and not context.turn:
        context.lose(event, why="it comes before its turn has an id")
        return ()
    return (frames.TurnStarted(turn_id=context.turn),)


@FROM_EVENT.rule(events.GoalUpdated, produces=(frames.GoalUpdated,))
def goal_updated(event: events.GoalUpdated, context: Context) -> Messages:
    goal = read_raw(event.goal, values.ThreadGoal)
    if goal is None:
        context.lose(event, why="a goal that codewhale does not know")
        return ()
    return (frames.GoalUpdated(goal=goal if context.alone else goal_in(goal, context.generation)),)


@FROM_EVENT.rule(events.GoalCleared, produces=(frames.GoalCleared,))
def goal_cleared(_event: events.GoalCleared, context: Context) -> Messages:
    return (frames.GoalCleared(thread_id=context.thread or thread_id(context.session)),)


@FROM_EVENT.rule(events.ErrorReported, produces=(frames.Error,), fidelity=Lossy(("cause",)))
def error_reported(event: events.ErrorReported, context: Context) -> Messages:
    return (frames.Error(response_id=context.response_id, message=event.text),)


@FROM_EVENT.rule(events.Gap, produces=(frames.Error,), fidelity=Emulated("an error in the events of a result"))
def gap(event: events.Gap, context: Context) -> Messages:
    return (frames.Error(response_id=context.response_id, message=event.text),)


# -- questions in words (docs/translation.md, rule 3.3) ---------------------------------------------


@FROM_EVENT.rule(
    events.QuestionAsked,
    produces=(lines.ResponseStart, lines.ResponseDelta, lines.ResponseEnd),
    fidelity=Emulated("text, and the end of the response and its result where the turn waits"),
)
def question_asked(event: events.QuestionAsked, context: Context) -> Messages:
    words = text_delta(events.TextDelta(text=event.paragraph), context)
    if context.turn and not event.parked:
        return words
    return (*words, *turn_result(events.TurnResult(end="completed"), context))


# -- answers ----------------------------------------------------------------------------------------

UNEXPLAINED = Failure(cause="internal", text="turn failed")
"""The failure of a turn whose backend gave no reason."""


@FROM_EVENT.rule(
    events.TurnEnded,
    produces=(results.Answer,),
    # The six ends have three forms. UsageReported and ErrorReported count usage and the cause of a failure.
    fidelity=Lossy(
        ("end", "text", "message", "usage", "failure.cause"),
        lost_by=lambda event: () if event.end in ("failed", "cancelled") else ("end",),
    ),
)
def turn_ended(event: events.TurnEnded, context: Context) -> Messages:
    if event.end in ANSWERED:
        return (context.answer(accepted(context, event.ext if context.alone else None)),)
    if event.end == "failed":
        failure = event.failure or UNEXPLAINED
        code = given(failure.ext, "code", int, FAILED)
        return (context.refusal(_problem(failure, code if code in INPUT_REFUSALS else FAILED)),)
    text = given(event.ext, "message", str, INTERRUPTED)
    data = given(event.ext, "data", Raw, results.NULL)
    return (context.refusal(results.Problem(code=FAILED, message=text, data=data)),)


def accepted(context: Context, ext: Any = None) -> Any:
    """Return the result of a successful turn, or of a run that ended with a question."""
    result = carried(ext, "result")
    if result is not None:
        return typed(result)
    thread = context.thread or thread_id(context.session)
    if not context.streams:
        return results.ThreadResponse(thread_id=thread, status="accepted", data=results.EMPTY)
    return results.ThreadResponse(
        thread_id=thread,
        status="accepted",
        thread=None,
        model=None,
        model_provider=None,
        cwd=None,
        approval_policy=None,
        sandbox=None,
        data=raw({"turn_id": context.response_id.rpartition(":")[2]}),
    )


@FROM_EVENT.rule(
    events.Reply,
    produces=(results.Answer,),
    # each method has one form of result; a few succeed without effect, such as a rename of an unknown thread
    fidelity=Lossy(("failure", "result")),
)
def reply(event: events.Reply, context: Context) -> Messages:
    failure = event.failure
    if failure is None:
        result = results.AppResponse(ok=True, data=results.EMPTY) if event.result is UNSET else typed(event.result)
        return (context.answer(result, event.request),)
    refused = carried(failure.ext, "result")
    if refused is not None:
        return (context.answer(typed(refused), event.request),)
    return (context.refusal(problem_of(failure), event.request),)


def problem_of(failure: Failure) -> results.Problem:
    """Return a failure as a JSON-RPC error."""
    return _problem(failure, given(failure.ext, "code", int, CODE_OF_CAUSE[failure.cause]))


def _problem(failure: Failure, code: int) -> results.Problem:
    data = given(failure.ext, "data", Raw, results.NULL)
    return results.Problem(code=code, message=failure.text, data=data)


@FROM_EVENT.rule(events.SessionOpened, produces=(results.Answer,), fidelity=Lossy(("agent", "status")))
def session_opened(event: events.SessionOpened, context: Context) -> Messages:
    result = replies.opened(event, context.asked, context.at, context.generation)
    return (context.answer(result, event.request),)


@FROM_EVENT.rule(
    events.SessionsListed,
    produces=(results.Answer,),
    fidelity=Lossy(("sessions.messages", "sessions.status", "sessions.updated_at", "next_cursor")),  # whole seconds
)
def sessions_listed(event: events.SessionsListed, context: Context) -> Messages:
    return (context.answer(replies.listed(event, context.asked, context.generation), event.request),)


@FROM_EVENT.rule(
    events.HistorySnapshot,
    produces=(results.Answer,),
    fidelity=Lossy((*NOT_IN_A_MESSAGE_LIST, "items.at", "items.id", "items.system", "next_cursor")),
)
def history_snapshot(event: events.HistorySnapshot, context: Context) -> Messages:
    if not event.request:  # a broadcast: it answers no request
        context.lose(event, why="codewhale clients ask for the history")
        return ()
    return (context.answer(replies.history(event, context.asked), event.request),)


@FROM_EVENT.rule(events.Pong, produces=(results.Answer,), fidelity=Lossy(("at",)))
def pong(event: events.Pong, context: Context) -> Messages:
    return (context.answer(results.Health(), event.request),)


# -- events that another message carries, or that have no form in codewhale -------------------------

FROM_EVENT.carried(events.TurnAccepted, "the result of the turn")
FROM_EVENT.carried(events.TextDone, "response_delta")
FROM_EVENT.carried(events.ReasoningStarted, "response_delta of the channel reasoning")
FROM_EVENT.carried(events.ReasoningDone, "response_delta of the channel reasoning")
FROM_EVENT.carried(events.ToolCallStarted, "tool_call_start, with the arguments")
FROM_EVENT.carried(events.MessageAppended, "the history in the result of thread/read", without=("message.system",))
FROM_EVENT.carried(events.StatusChanged, "the status of the thread")
FROM_EVENT.carried(events.SessionUpdated, "the thread in the result of thread/read")
FROM_EVENT.carried(events.SessionActivated, "the thread in the result of thread/read")
FROM_EVENT.carried(events.SessionClosed, "the list of threads")
FROM_EVENT.carried(events.BackendShutdown, "the result of shutdown, and the end of the stream", without=("reason",))

for source, how in IN_WORDS.items():
    FROM_EVENT.carried(source, how)
FROM_EVENT.carried(events.QuestionAnswered, "the run that continues")

FROM_EVENT.none("codewhale reports the end of the answer, not of each model call", events.ModelTurnEnded)
FROM_EVENT.none("codewhale does not report model calls", events.ModelCallStarted, events.ModelCallEnded)
FROM_EVENT.none("codewhale does not report retries", events.ModelRetry, events.ModelContinuation)
FROM_EVENT.none("codewhale has no text outside of the answer", events.Preamble)
FROM_EVENT.none("codewhale does not report nodes of a graph", events.StateSnapshot)
FROM_EVENT.none("codewhale does not report token counts on stdio", events.UsageReported)
FROM_EVENT.none("codewhale has no alerts", events.Alert)
FROM_EVENT.none(
    "codewhale does not report compaction", events.CompactionStarted, events.CompactionDone, events.CompactionFailed
)
FROM_EVENT.none("codewhale does not report memory work", events.MemoryWork)
FROM_EVENT.none("codewhale has no completions", events.CompletionsListed)
FROM_EVENT.none("codewhale has no pods", events.PodInspected, events.PodAttached)
FROM_EVENT.none("codewhale does not report changes of its store", events.StoreChanged)
FROM_EVENT.none("codewhale has no heartbeats", events.Heartbeat)
FROM_EVENT.none("a codewhale client skips lines that it does not know", Unmapped)
