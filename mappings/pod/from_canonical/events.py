"""Rules from canonical events to pod events, in the order of to_canonical/events.py.

The events without a form in pod come last. The context has the time and session of the batch, counters and losses.
Pod clients have no form for a question, so it is asked in words (docs/translation.md, rule 3.3). The question ends the
client's run, not the turn. The answer begins a new run, in which the rest of the turn arrives.
"""

from __future__ import annotations

from uuid import UUID

from msgspec import UNSET, Raw

from dragoman.mappings.canonical import events
from dragoman.mappings.canonical.unions import Unmapped
from dragoman.mappings.canonical.values import BackendInfo, Cause, Failure, SessionSummary, Status, attachments
from dragoman.mappings.extras import read_raw
from dragoman.mappings.in_words import IN_WORDS
from dragoman.mappings.pod.entries import (
    MS,
    LoggedConversation,
    logged_item,
    made_entries,
    opaque,
    result_summary,
    segment_start,
    system_item,
    user_segments,
)
from dragoman.mappings.pod.from_canonical.context import Context
from dragoman.mappings.pod.from_canonical.replies import described, greeting
from dragoman.mappings.pod.vocabulary import (
    ALERT_SOURCES,
    CANCELLED,
    CAUSE_OF_CODE,
    CODE_OF_CAUSE,
    CODE_OF_FAILURE,
    COMPLETION_KINDS,
    ERROR_CODES,
    INVOKE_KINDS,
    RESULT_OF_END,
    carried,
    from_segments,
    given,
)
from dragoman.mappings.pod.wire import events as wire
from dragoman.mappings.rules import Emulated, Lossy, Rules

FROM_EVENT = Rules[[Context], wire.EventBase]("canonical events -> pod")

Messages = tuple[wire.EventBase, ...]


@FROM_EVENT.rule(
    events.HistorySnapshot,
    produces=(wire.Snapshot, wire.SegmentRotated, wire.Status),
    # A rotation has no times and segments. Runs that did not come from a pod are built from the user messages.
    fidelity=Lossy(
        ("items.id", "items.turn", "items.at", "items.segments", "runs", "conversation", "compacted", "summed_up")
    ),
)
def history_snapshot(event: events.HistorySnapshot, context: Context) -> Messages:
    # An attached client never gets a second snapshot: a changed history reaches it as a rotation.
    if event.rotated or not context.alone:
        rotated = wire.SegmentRotated(data=wire.SegmentRotated.Data(entry=_start(event, context)))
        # After a reconnect the backend reports its status only in its history.
        if event.rotated or event.status is None:
            return (rotated,)
        return rotated, wire.Status(data=wire.Status.Data(status=event.status))
    entries = given(event.ext, "entries", list[object], []) or made_entries(event.items)
    history = wire.Snapshot.Data(
        entries=[*map(opaque, entries)],
        greeting=greeting(event.backend or BackendInfo()),
        status=event.status or "idle",
    )
    return (wire.Snapshot(data=history),)


def _start(event: events.HistorySnapshot, context: Context) -> object:
    """Return the first entry of the segment: the pod's own, with what clients saw before or after it added.

    The entry may begin with a summary of older items, which are not sent again.
    """
    own = carried(event.ext, "entry")
    entries = given(event.ext, "entries", list[Raw], []) if own is None and event.compacted else []
    log = LoggedConversation(entries if own is None else [own])
    entry = read_raw(log.start if own is None else own, dict[str, object])
    if entry is None:
        return own or segment_start(event.conversation or context.session, event.items, context.at)
    if own is None:
        entry["history"] = [*map(logged_item, log.items)]
    history = entry.get("history", [])
    shown = event.summed_up or len(log.items)
    if shown >= len(event.items) or not isinstance(history, list):
        return own or entry
    return {**entry, "history": [*history, *map(logged_item, event.items[shown:])]}


@FROM_EVENT.rule(
    events.MessageAppended,
    produces=(wire.UserMessage, wire.SystemItem),
    fidelity=Lossy(("message.id", "message.at", "message.turn", "message.segments.image", "message.segments.file")),
)
def message_appended(event: events.MessageAppended, context: Context) -> Messages:
    message = event.message
    if message.role == "user":
        for _ in attachments(message.segments):
            context.lose(event, "message.segments", "a pod shows no images or files by URL")
        return (wire.UserMessage(data=wire.UserMessage.Data(segments=user_segments(message))),)
    if message.role == "system":
        return (wire.SystemItem(data=wire.SystemItem.Data(item=system_item(message))),)
    context.lose(event, why="what the assistant says reaches pod clients as text events")
    return ()


@FROM_EVENT.rule(events.RunStarted, produces=(wire.InvokeStart,))
def run_started(event: events.RunStarted, _context: Context) -> Messages:
    kind = INVOKE_KINDS.get(event.kind, "wakeup")
    return (wire.InvokeStart(data=wire.InvokeStart.Data(kind=kind)),)


@FROM_EVENT.rule(events.ModelTurnStarted, produces=(wire.TurnStart,))
def model_turn_started(event: events.ModelTurnStarted, context: Context) -> Messages:
    return (wire.TurnStart(data=wire.TurnStart.Data(turn=context.turns.begin(event.index))),)


@FROM_EVENT.rule(events.ModelTurnEnded, produces=(wire.TurnEnd,))
def model_turn_ended(event: events.ModelTurnEnded, context: Context) -> Messages:
    turn = context.turns.current(event.index)
    return (wire.TurnEnd(data=wire.TurnEnd.Data(turn=turn, result=event.result)),)


@FROM_EVENT.rule(events.ModelCallStarted, produces=(wire.LlmCallStart,))
def model_call_started(event: events.ModelCallStarted, context: Context) -> Messages:
    return (wire.LlmCallStart(data=wire.Call(llm_call=context.model_calls.begin(event.index))),)


@FROM_EVENT.rule(events.ModelCallEnded, produces=(wire.LlmCallEnd,))
def model_call_ended(event: events.ModelCallEnded, context: Context) -> Messages:
    return (wire.LlmCallEnd(data=wire.Call(llm_call=context.model_calls.current(event.index))),)


@FROM_EVENT.rule(events.ModelRetry, produces=(wire.LlmRetry,))
def model_retry(event: events.ModelRetry, _context: Context) -> Messages:
    retry = wire.LlmRetry.Data(
        llm_call=event.index,
        failed_attempt=event.failed_attempt,
        max_attempts=event.max_attempts,
        wait_ms=event.wait_ms,
        elapsed_ms=event.elapsed_ms,
        status=event.status,
        error=event.text,
    )
    return (wire.LlmRetry(data=retry),)


@FROM_EVENT.rule(events.ModelContinuation, produces=(wire.LlmContinuation,))
def model_continuation(event: events.ModelContinuation, _context: Context) -> Messages:
    continuation = wire.LlmContinuation.Data(
        llm_call=event.index, attempt=event.attempt, max_attempts=event.max_attempts, reason=event.reason
    )
    return (wire.LlmContinuation(data=continuation),)


@FROM_EVENT.rule(events.TextDelta, produces=(wire.TextDelta,))
def text_delta(event: events.TextDelta, _context: Context) -> Messages:
    return (wire.TextDelta(data=wire.TextData(text=event.text)),)


@FROM_EVENT.rule(events.TextDone, produces=(wire.TextDone,))
def text_done(event: events.TextDone, _context: Context) -> Messages:
    return (wire.TextDone(data=wire.TextData(text=event.text)),)


FROM_EVENT.becomes(events.ReasoningStarted, wire.ThinkingStart())


@FROM_EVENT.rule(events.ReasoningDelta, produces=(wire.ThinkingDelta,))
def reasoning_delta(event: events.ReasoningDelta, _context: Context) -> Messages:
    return (wire.ThinkingDelta(data=wire.TextData(text=event.text)),)


@FROM_EVENT.rule(events.ReasoningDone, produces=(wire.ThinkingDone,))
def reasoning_done(event: events.ReasoningDone, _context: Context) -> Messages:
    return (wire.ThinkingDone(data=wire.TextData(text=event.text)),)


@FROM_EVENT.rule(events.ToolCallStarted, produces=(wire.ToolCallStart,))
def tool_call_started(event: events.ToolCallStarted, _context: Context) -> Messages:
    return (wire.ToolCallStart(data=wire.ToolCallStart.Data(id=event.call, name=event.name)),)


@FROM_EVENT.rule(
    events.ToolCallArguments, produces=(wire.ToolCallArgsDelta, wire.ToolCallDone), fidelity=Lossy(("name",))
)
def tool_call_arguments(event: events.ToolCallArguments, _context: Context) -> Messages:
    if event.done:
        return (wire.ToolCallDone(data=wire.ToolCallDone.Data(id=event.call, name=event.name, arguments=event.json)),)
    return (wire.ToolCallArgsDelta(data=wire.ToolCallArgsDelta.Data(id=event.call, json=event.json)),)


@FROM_EVENT.rule(events.ToolCallFinished, produces=(wire.ToolResult,), fidelity=Lossy(("name",)))
def tool_call_finished(event: events.ToolCallFinished, _context: Context) -> Messages:
    result = wire.ToolResult.Data(
        id=event.call,
        summary=result_summary(event),
        output=UNSET if event.output is None else event.output,
        is_error=event.is_error,
    )
    return (wire.ToolResult(data=result),)


@FROM_EVENT.rule(events.UsageReported, produces=(wire.Usage,), fidelity=Lossy(("usage.cost_usd",)))
def usage_reported(event: events.UsageReported, _context: Context) -> Messages:
    used = event.usage
    tokens = wire.Usage.Data(
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cache_read_input_tokens=UNSET if used.cache_read_tokens is None else used.cache_read_tokens,
    )
    return (wire.Usage(data=tokens),)


@FROM_EVENT.rule(events.TurnResult, produces=(wire.RunEnd, wire.Error))
def turn_result(event: events.TurnResult, _context: Context) -> Messages:
    if event.end == "failed":  # a failed run has no `run_end`: ErrorReported has already written its `error`
        return ()
    if event.end == "cancelled":
        return (wire.Error(data=wire.Error.Data(code="internal", message=CANCELLED)),)
    return (wire.RunEnd(data=wire.RunEnd.Data(result=RESULT_OF_END[event.end])),)


KEPT_CAUSES = frozenset(cause for cause, code in CODE_OF_FAILURE.items() if CAUSE_OF_CODE[code] == cause)
"""The causes of failures that have a code of their own."""


@FROM_EVENT.rule(
    events.ErrorReported,
    produces=(wire.Error,),
    fidelity=Lossy(("cause",), lost_by=lambda event: () if event.cause in KEPT_CAUSES else ("cause",)),
)
def error_reported(event: events.ErrorReported, _context: Context) -> Messages:
    return (problem(event, CODE_OF_FAILURE),)


def problem(event: events.ErrorReported | Failure, codes: dict[Cause, wire.ErrorCode] = CODE_OF_CAUSE) -> wire.Error:
    """Return a failure as a pod's `error`, with the original code if it came from a pod, else that of its cause."""
    code = given(event.ext, "code", str, "")
    code_now = ERROR_CODES.get(code, codes[event.cause])
    return wire.Error(data=wire.Error.Data(code=code_now, message=event.text))


@FROM_EVENT.rule(events.StatusChanged, produces=(wire.Status,))
def status_changed(event: events.StatusChanged, _context: Context) -> Messages:
    return (wire.Status(data=wire.Status.Data(status=event.status)),)


@FROM_EVENT.rule(events.CompletionsListed, produces=(wire.Completions,))
def completions_listed(event: events.CompletionsListed, context: Context) -> Messages:
    kind = COMPLETION_KINDS.get(event.kind)
    if kind is None:
        context.lose(event, "kind", "pods complete files, knowledge and workflows only")
        return ()
    listed = [wire.CompletionEntry(value=entry.value, is_dir=entry.is_dir) for entry in event.entries]
    return (wire.Completions(data=wire.Completions.Data(kind=kind, entries=listed)),)


@FROM_EVENT.rule(
    events.SessionsListed,
    produces=(wire.VisiblePods,),
    fidelity=Lossy(("next_cursor", "sessions.title", "sessions.updated_at", "sessions.messages", "sessions.archived")),
)
def sessions_listed(event: events.SessionsListed, _context: Context) -> Messages:
    return (wire.VisiblePods(data=wire.VisiblePods.Data(pods=[_pod(session) for session in event.sessions])),)


def _pod(session: SessionSummary) -> object:
    """Return a session as an item of the list of pods (docs/dialects/pod.md, section 10)."""
    own = carried(session.ext, "pod")
    return {**described(session.session, session.status), "state": "readable"} if own is None else own


@FROM_EVENT.rule(events.PodInspected, produces=(wire.PodInspection,))
def pod_inspected(event: events.PodInspected, _context: Context) -> Messages:
    return (wire.PodInspection(data=wire.PodInspection.Data(pod=event.pod)),)


@FROM_EVENT.rule(events.PodAttached, produces=(wire.PodAttachRestore,))
def pod_attached(event: events.PodAttached, _context: Context) -> Messages:
    return (wire.PodAttachRestore(data=wire.PodAttachRestore.Data(result=event.result)),)


@FROM_EVENT.rule(events.Alert, produces=(wire.Alert,))
def alert(event: events.Alert, context: Context) -> Messages:
    notice = wire.Alert.Data(
        level=event.level,
        source=ALERT_SOURCES.get(event.source, "pod"),
        message=event.text,
        timestamp_ms=(event.at or context.at) // MS,
    )
    return (wire.Alert(data=notice),)


@FROM_EVENT.rule(events.MemoryWork, produces=(wire.MemoryWorker,))
def memory_work(event: events.MemoryWork, _context: Context) -> Messages:
    report = wire.MemoryWorker.Data(
        worker=event.worker,
        status=event.status,
        run_id=event.run,
        trigger=event.trigger,
        reason=event.reason,
        message=event.text,
        timestamp_ms=event.at // MS,
    )
    return (wire.MemoryWorker(data=report),)


FROM_EVENT.becomes(events.CompactionStarted, wire.CompactStart())


@FROM_EVENT.rule(events.CompactionDone, produces=(wire.CompactDone,))
def compaction_done(event: events.CompactionDone, _context: Context) -> Messages:
    return (wire.CompactDone(data=wire.CompactDone.Data(new_segment_id=UUID(event.segment))),)


@FROM_EVENT.rule(events.CompactionFailed, produces=(wire.CompactFailed,))
def compaction_failed(event: events.CompactionFailed, _context: Context) -> Messages:
    return (wire.CompactFailed(data=wire.CompactFailed.Data(error=event.text)),)


FROM_EVENT.becomes(events.BackendShutdown, wire.Shutdown(), fidelity=Lossy(("reason",)))


@FROM_EVENT.rule(events.Reply, produces=(wire.Error,), fidelity=Emulated("error, or the events after a success"))
def reply(event: events.Reply, _context: Context) -> Messages:
    # A pod sends no success reply: the events that follow show the result.
    return (problem(event.failure),) if event.failure is not None else ()


@FROM_EVENT.rule(events.Gap, produces=(wire.Alert,), fidelity=Emulated("alert{warn}"))
def gap(event: events.Gap, context: Context) -> Messages:
    notice = wire.Alert.Data(level="warn", source="pod", message=event.text, timestamp_ms=context.at // MS)
    return (wire.Alert(data=notice),)


# -- questions in words -------------------------------------------------------------------------------


@FROM_EVENT.rule(
    events.QuestionAsked,
    produces=(wire.TextDelta, wire.TextDone, wire.TurnEnd, wire.RunEnd, wire.Status),
    fidelity=Emulated("text, and run_end{paused} if the turn waits"),
)
def question_asked(event: events.QuestionAsked, context: Context) -> Messages:
    # The question ends the client's run, not the turn. Outside of a turn the question is a complete run.
    words: Messages = (
        wire.TextDelta(data=wire.TextData(text=event.paragraph)),
        wire.TextDone(data=wire.TextData(text=event.paragraph)),
    )
    if event.parked:
        context.parked = True
        return (*words, *_run_over("paused"))
    if context.turn:
        return words
    ended = wire.TurnEnd(data=wire.TurnEnd.Data(turn=context.turns.current(None), result="finished"))
    return (*words, ended, *_run_over("finished"))


@FROM_EVENT.rule(
    events.QuestionAnswered,
    produces=(wire.UserMessage, wire.Status, wire.InvokeStart, wire.TurnStart),
    fidelity=Emulated("a run of its own"),
)
def question_answered(event: events.QuestionAnswered, context: Context) -> Messages:
    if context.turn and not context.parked:
        return ()  # the question was asked before this client attached
    context.parked = False
    begun = (
        wire.Status(data=wire.Status.Data(status="running")),
        wire.InvokeStart(data=wire.InvokeStart.Data(kind="user_send" if event.segments else "wakeup")),
        wire.TurnStart(data=wire.TurnStart.Data(turn=context.turns.begin(event.model_turn))),
    )
    if not event.segments:
        return begun
    return (wire.UserMessage(data=wire.UserMessage.Data(segments=from_segments(event.segments))), *begun)


def _run_over(result: wire.RunResult) -> Messages:
    status: Status = "paused" if result == "paused" else "idle"
    return (
        wire.RunEnd(data=wire.RunEnd.Data(result=result)),
        wire.Status(data=wire.Status.Data(status=status)),
    )


# -- events without a form in pod -------------------------------------------------------------------

for source, how in IN_WORDS.items():
    FROM_EVENT.carried(source, how)
FROM_EVENT.carried(events.SessionOpened, "the snapshot that a client gets when it attaches")
FROM_EVENT.carried(events.TurnAccepted, "status{running}")
FROM_EVENT.carried(events.TurnEnded, "run_end or error, and status")
FROM_EVENT.none(
    "a pod client sees one session and no description of it",
    events.SessionUpdated,
    events.SessionActivated,
    events.SessionClosed,
)
FROM_EVENT.none("pods have no text outside of the answer", events.Preamble)
FROM_EVENT.none("pods report a tool's output only when it is complete", events.ToolOutputDelta)
FROM_EVENT.none("pods do not report nodes of a graph", events.StateSnapshot)
FROM_EVENT.none("pods do not report MCP servers", events.McpStartup)
FROM_EVENT.none("pods have no goals", events.GoalUpdated, events.GoalCleared)
FROM_EVENT.none("pods have no hook lines", events.LifecycleReport)
FROM_EVENT.none("pods do not report changes of their store", events.StoreChanged)
FROM_EVENT.none("pods have no ping and no heartbeat", events.Heartbeat, events.Pong)
FROM_EVENT.none("an unknown event ends a pod client's reader for good", Unmapped)
