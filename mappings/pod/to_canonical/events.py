"""Rules from pod events to canonical events, in the order of docs/dialects/pod.md, section 6.

Fields without a canonical counterpart are kept in `ext` as `pod.FIELD`, so that pod clients get the pod's own frame.
"""

from __future__ import annotations

from msgspec import UNSET

from dragoman.mappings.canonical import Event, Events, events
from dragoman.mappings.canonical.values import BackendInfo, Completion, Message, SessionSummary, Usage, flatten
from dragoman.mappings.pod.entries import MS, LoggedConversation, opaque, system_text
from dragoman.mappings.pod.vocabulary import CANCELLED, CAUSE_OF_CODE, CODE_OF_FAILURE, END_OF_RESULT, keep, to_segments
from dragoman.mappings.pod.wire import events as wire
from dragoman.mappings.rules import Rules

TO_EVENT = Rules[[], Event]("pod -> canonical events")


@TO_EVENT.rule(wire.Snapshot, produces=(events.HistorySnapshot,), ext=("entries",))
def snapshot(message: wire.Snapshot) -> Events:
    data = message.data
    logged = LoggedConversation(data.entries)
    return (
        events.HistorySnapshot(
            items=tuple(logged.items),
            runs=tuple(logged.runs),
            conversation=logged.id,
            compacted=logged.compacted,
            status=data.status,
            backend=_backend(data.greeting),
            ext=keep(entries=data.entries),
        ),
    )


def _backend(greeting: wire.Greeting) -> BackendInfo:
    return BackendInfo(
        name=greeting.pod_name,
        model=greeting.model,
        provider=greeting.provider,
        cwd=greeting.cwd,
        tools=tuple(greeting.tools),
        ext=keep(
            scope_summary=greeting.scope_summary,
            context_window=greeting.context_window,
            context_tokens=greeting.context_tokens,
        ),
    )


@TO_EVENT.rule(wire.UserMessage, produces=(events.MessageAppended,))
def user_message(message: wire.UserMessage) -> Events:
    segments = to_segments(message.data.segments)
    return (events.MessageAppended(message=Message(role="user", text=flatten(segments), segments=segments)),)


@TO_EVENT.rule(wire.SystemItem, produces=(events.MessageAppended,))
def system_item(message: wire.SystemItem) -> Events:
    item = message.data.item
    shown = Message(role="system", text=system_text(item), ext=keep(item=opaque(item)))
    return (events.MessageAppended(message=shown),)


@TO_EVENT.rule(wire.InvokeStart, produces=(events.RunStarted,))
def invoke_start(message: wire.InvokeStart) -> Events:
    return (events.RunStarted(kind=message.data.kind),)


@TO_EVENT.rule(wire.TurnStart, produces=(events.ModelTurnStarted,))
def turn_start(message: wire.TurnStart) -> Events:
    return (events.ModelTurnStarted(index=message.data.turn),)


@TO_EVENT.rule(wire.TurnEnd, produces=(events.ModelTurnEnded,))
def turn_end(message: wire.TurnEnd) -> Events:
    return (events.ModelTurnEnded(index=message.data.turn, result=message.data.result),)


@TO_EVENT.rule(wire.LlmCallStart, produces=(events.ModelCallStarted,))
def llm_call_start(message: wire.LlmCallStart) -> Events:
    return (events.ModelCallStarted(index=message.data.llm_call),)


@TO_EVENT.rule(wire.LlmCallEnd, produces=(events.ModelCallEnded,))
def llm_call_end(message: wire.LlmCallEnd) -> Events:
    return (events.ModelCallEnded(index=message.data.llm_call),)


@TO_EVENT.rule(wire.LlmRetry, produces=(events.ModelRetry,))
def llm_retry(message: wire.LlmRetry) -> Events:
    data = message.data
    return (
        events.ModelRetry(
            index=data.llm_call,
            failed_attempt=data.failed_attempt,
            max_attempts=data.max_attempts,
            wait_ms=data.wait_ms,
            elapsed_ms=data.elapsed_ms,
            text=data.error,
            status=data.status,
        ),
    )


@TO_EVENT.rule(wire.LlmContinuation, produces=(events.ModelContinuation,))
def llm_continuation(message: wire.LlmContinuation) -> Events:
    data = message.data
    return (
        events.ModelContinuation(
            index=data.llm_call, attempt=data.attempt, max_attempts=data.max_attempts, reason=data.reason
        ),
    )


@TO_EVENT.rule(wire.TextDelta, produces=(events.TextDelta,))
def text_delta(message: wire.TextDelta) -> Events:
    return (events.TextDelta(text=message.data.text),)


@TO_EVENT.rule(wire.TextDone, produces=(events.TextDone,))
def text_done(message: wire.TextDone) -> Events:
    return (events.TextDone(text=message.data.text),)


TO_EVENT.becomes(wire.ThinkingStart, events.ReasoningStarted())


@TO_EVENT.rule(wire.ThinkingDelta, produces=(events.ReasoningDelta,))
def thinking_delta(message: wire.ThinkingDelta) -> Events:
    return (events.ReasoningDelta(text=message.data.text),)


@TO_EVENT.rule(wire.ThinkingDone, produces=(events.ReasoningDone,))
def thinking_done(message: wire.ThinkingDone) -> Events:
    return (events.ReasoningDone(text=message.data.text),)


@TO_EVENT.rule(wire.ToolCallStart, produces=(events.ToolCallStarted,))
def tool_call_start(message: wire.ToolCallStart) -> Events:
    data = message.data
    return (events.ToolCallStarted(call=data.id, name=data.name),)


@TO_EVENT.rule(wire.ToolCallArgsDelta, produces=(events.ToolCallArguments,))
def tool_call_args_delta(message: wire.ToolCallArgsDelta) -> Events:
    data = message.data
    return (events.ToolCallArguments(call=data.id, json=data.json),)


@TO_EVENT.rule(wire.ToolCallDone, produces=(events.ToolCallArguments,))
def tool_call_done(message: wire.ToolCallDone) -> Events:
    data = message.data
    return (events.ToolCallArguments(call=data.id, name=data.name, json=data.arguments, done=True),)


@TO_EVENT.rule(wire.ToolResult, produces=(events.ToolCallFinished,))
def tool_result(message: wire.ToolResult) -> Events:
    data = message.data
    output = None if data.output is UNSET else data.output
    return (events.ToolCallFinished(call=data.id, summary=data.summary, output=output, is_error=data.is_error),)


@TO_EVENT.rule(wire.Usage, produces=(events.UsageReported,))
def usage(message: wire.Usage) -> Events:
    data = message.data
    cached = None if data.cache_read_input_tokens is UNSET else data.cache_read_input_tokens
    used = Usage(input_tokens=data.input_tokens, output_tokens=data.output_tokens, cache_read_tokens=cached)
    return (events.UsageReported(usage=used),)


@TO_EVENT.rule(wire.RunEnd, produces=(events.TurnResult,))
def run_end(message: wire.RunEnd) -> Events:
    return (events.TurnResult(end=END_OF_RESULT[message.data.result]),)


@TO_EVENT.rule(wire.Error, produces=(events.ErrorReported, events.TurnResult), answers=(events.Reply,))
def error(message: wire.Error) -> Events:
    code, text = message.data.code, message.data.message
    if code == "internal" and text == CANCELLED:
        return (events.TurnResult(end="cancelled"),)
    cause = CAUSE_OF_CODE[code]
    ext = keep(code=UNSET if CODE_OF_FAILURE[cause] == code else code)
    return (events.ErrorReported(cause=cause, text=text, ext=ext),)


@TO_EVENT.rule(wire.SegmentRotated, produces=(events.HistorySnapshot,), ext=("entry",))
def segment_rotated(message: wire.SegmentRotated) -> Events:
    entry = opaque(message.data.entry)
    logged = LoggedConversation([entry])
    return (
        events.HistorySnapshot(
            items=tuple(logged.items),
            rotated=True,
            conversation=logged.id,
            compacted=logged.compacted,
            ext=keep(entry=entry),
        ),
    )


@TO_EVENT.rule(wire.Status, produces=(events.StatusChanged,))
def status(message: wire.Status) -> Events:
    return (events.StatusChanged(status=message.data.status),)


@TO_EVENT.rule(wire.Completions, produces=(events.CompletionsListed,))
def completions(message: wire.Completions) -> Events:
    listed = tuple(Completion(value=entry.value, is_dir=entry.is_dir) for entry in message.data.entries)
    return (events.CompletionsListed(kind=message.data.kind, entries=listed),)


@TO_EVENT.rule(wire.VisiblePods, produces=(events.SessionsListed,))
def visible_pods(message: wire.VisiblePods) -> Events:
    return (events.SessionsListed(request="", sessions=tuple(_summary(pod) for pod in message.data.pods)),)


def _summary(pod: object) -> SessionSummary:
    """Return a row of a list of pods; its session is the pod's name (docs/dialects/pod.md, section 10)."""
    known = pod if isinstance(pod, dict) else {}
    live = known.get("live")
    state = live.get("status") if isinstance(live, dict) else None
    name = known.get("pod_name")
    name = name if isinstance(name, str) else ""
    return SessionSummary(
        session=name,
        title=name,
        status=state if state in ("running", "paused") else "idle",
        ext=keep(pod=opaque(pod)),
    )


@TO_EVENT.rule(wire.PodInspection, produces=(events.PodInspected,))
def pod_inspection(message: wire.PodInspection) -> Events:
    return (events.PodInspected(pod=opaque(message.data.pod)),)


@TO_EVENT.rule(wire.PodAttachRestore, produces=(events.PodAttached,))
def pod_attach_restore(message: wire.PodAttachRestore) -> Events:
    return (events.PodAttached(result=opaque(message.data.result)),)


@TO_EVENT.rule(wire.Alert, produces=(events.Alert,))
def alert(message: wire.Alert) -> Events:
    data = message.data
    at = data.timestamp_ms * MS
    return (events.Alert(level=data.level, source=data.source, text=data.message, at=at),)


@TO_EVENT.rule(wire.MemoryWorker, produces=(events.MemoryWork,))
def memory_worker(message: wire.MemoryWorker) -> Events:
    data = message.data
    return (
        events.MemoryWork(
            worker=data.worker,
            status=data.status,
            run=data.run_id,
            trigger=data.trigger,
            reason=data.reason,
            text=data.message,
            at=data.timestamp_ms * MS,
        ),
    )


TO_EVENT.becomes(wire.CompactStart, events.CompactionStarted())


@TO_EVENT.rule(wire.CompactDone, produces=(events.CompactionDone,))
def compact_done(message: wire.CompactDone) -> Events:
    return (events.CompactionDone(segment=str(message.data.new_segment_id)),)


@TO_EVENT.rule(wire.CompactFailed, produces=(events.CompactionFailed,))
def compact_failed(message: wire.CompactFailed) -> Events:
    return (events.CompactionFailed(text=message.data.error),)


TO_EVENT.becomes(wire.Shutdown, events.BackendShutdown())
