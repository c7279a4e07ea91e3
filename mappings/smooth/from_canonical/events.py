"""Canonical events as a smooth server says them, in the order of to_canonical/events.py.

Each wire form comes from exactly one event: a call's chunk from its complete arguments, the terminal from TurnEnded.
`internal` events have no word here and get none. Addressed events are answers to `context.asked`.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw

from dragoman.mappings.canonical import Unmapped, commands, events
from dragoman.mappings.canonical.values import Ext, Failure
from dragoman.mappings.rules import Emulated, Lossy
from dragoman.mappings.smooth.extras import given
from dragoman.mappings.smooth.from_canonical import replies
from dragoman.mappings.smooth.from_canonical.context import Context, Messages, code_of, error_event
from dragoman.mappings.smooth.from_canonical.questions import FROM_EVENT, otp_failure
from dragoman.mappings.smooth.to_canonical.events import ACCEPTED, DONE
from dragoman.mappings.smooth.wire import events as wire
from dragoman.mappings.smooth.wire.payloads import call_of, call_state, result_of, result_state
from dragoman.mappings.smooth.wire.questions import OtpInvalid
from dragoman.mappings.smooth.wire.times import NS_PER_MS

__all__ = ["FROM_EVENT"]


# -- answers to one request -------------------------------------------------------------------------


def _done(context: Context, data: object, ext: Ext | None = None) -> Messages:
    """A 200; `data` is an object: a struct of wire.replies, a dict or Raw."""
    status, message = given(ext, "status"), given(ext, "message")
    return (
        wire.ImmediateResponse(
            request_id=context.top,
            status=status if isinstance(status, int) else 200,
            message=message if isinstance(message, str) else DONE,
            data=data,  # type: ignore[arg-type]  # encodes as the object that `data` is declared as
            timestamp=context.timestamp,
        ),
    )


@FROM_EVENT.rule(events.SessionOpened, produces=(wire.ImmediateResponse,), fidelity=Lossy(("title", "status")))
def session_opened(event: events.SessionOpened, context: Context) -> Messages:
    """The reply of create_conversation_session and get_session."""
    return _done(context, replies.session(event, context.asked))


@FROM_EVENT.rule(
    events.SessionsListed, produces=(wire.ImmediateResponse,), fidelity=Lossy(("sessions.status", "sessions.archived"))
)
def sessions_listed(event: events.SessionsListed, context: Context) -> Messages:
    """The reply of list_conversations."""
    return _done(context, replies.conversations(event))


@FROM_EVENT.rule(
    events.HistorySnapshot,
    produces=(wire.ImmediateResponse,),
    fidelity=Lossy(
        (
            "items.turn",
            "items.segments",
            "items.system",
            "items.reasoning",
            "items.tool_call",
            "items.tool_result",
            "status",
            "backend",
            "rotated",
            "runs",
            "conversation",
            "compacted",
            "summed_up",
        )
    ),
)
def history_snapshot(event: events.HistorySnapshot, context: Context) -> Messages:
    """The reply of get_conversation_messages; a whole history has no word, its clients ask for pages."""
    if not event.request:
        context.lose(event, why="smooth clients ask for the history by pages")
        return ()
    return _done(context, replies.page(event))


@FROM_EVENT.rule(events.TurnAccepted, produces=(wire.ImmediateResponse,))
def turn_accepted(event: events.TurnAccepted, context: Context) -> Messages:
    """202, only to the link that began the turn (docs/translation.md, rule 3.17)."""
    if not context.own or (context.turn and event.request != context.request_id):
        return ()  # somebody else's, or an answer in words that gave the turn to somebody else
    message, data = given(event.ext, "message"), given(event.ext, "data")
    return (
        wire.ImmediateResponse(
            request_id=context.top,
            status=202,
            message=message if isinstance(message, str) else ACCEPTED,
            data=data if isinstance(data, dict) else {},
            timestamp=context.timestamp,
        ),
    )


@FROM_EVENT.rule(
    events.Reply,
    produces=(wire.ImmediateResponse, wire.ErrorEvent, OtpInvalid),
    fidelity=Lossy(("failure.cause",)),  # several causes have one code
)
def reply(event: events.Reply, context: Context) -> Messages:
    """A 200 or an error; cancel and verify_otp have no acknowledgement (docs/dialects/smooth.md, section 3)."""
    if event.failure is not None:
        return _refusal(event.failure, context)
    if isinstance(context.asked, commands.CancelTurn | commands.AnswerOtp):
        return ()
    if event.result is UNSET:
        return _done(context, replies.acknowledged(context.asked), event.ext)
    result = msgspec.json.decode(event.result)
    return _done(context, result if isinstance(result, dict) else {"result": result}, event.ext)


def _refusal(failure: Failure, context: Context) -> Messages:
    code = code_of(failure.cause, failure.ext)
    asked = context.asked
    answers = isinstance(asked, commands.AnswerApproval | commands.AnswerInteraction | commands.AnswerOtp)
    nothing = failure.cause in ("not_found", "not_running") or (answers and failure.cause == "unsupported")
    if nothing and given(failure.ext, "code") is UNSET:  # a backend that never asks has no question open
        match asked:
            case commands.CancelTurn():
                return ()  # nothing runs: silence
            case commands.AnswerOtp() if failure.cause != "not_found":  # else the session itself is unknown
                return (otp_failure(context, "NOT_FOUND", 0, failure.text),)
            case commands.AnswerApproval():
                code = "NO_PENDING_CONFIRMATION"
            case commands.AnswerInteraction():
                code = "NO_PENDING_INTERACTION"
            case commands.RenameSession():
                code = "CONVERSATION_NOT_FOUND"
    elif isinstance(asked, commands.AnswerInteraction) and code == "VALIDATION_ERROR":
        code = "INTERACTION_MISMATCH"  # its form was looked at before it was sent on: it names another question
    return (error_event(context, code, failure.text, failure.ext),)


# -- the stream of a turn ---------------------------------------------------------------------------


@FROM_EVENT.rule(events.TextDelta, produces=(wire.StreamToken,))
def text_delta(event: events.TextDelta, context: Context) -> Messages:
    """More of the answer: the hot path."""
    token = event.text
    return (
        wire.StreamToken(
            request_id=context.top,
            token=token,
            data=wire.TokenData(request_id=context.request_id, token=token),
            timestamp=context.timestamp,
        ),
    )


@FROM_EVENT.rule(events.ReasoningDelta, produces=(wire.StreamReasoning,))
def reasoning_delta(event: events.ReasoningDelta, context: Context) -> Messages:
    """More of what the model thinks."""
    data = wire.TokenData(request_id=context.request_id, token=event.text)
    return (wire.StreamReasoning(request_id=context.top, token=event.text, data=data, timestamp=context.timestamp),)


@FROM_EVENT.rule(events.Preamble, produces=(wire.StreamPreamble,))
def preamble(event: events.Preamble, context: Context) -> Messages:
    """Words to fill the wait."""
    data = wire.TokenData(request_id=context.request_id, token=event.text)
    return (wire.StreamPreamble(request_id=context.top, token=event.text, data=data, timestamp=context.timestamp),)


def _chunk(context: Context, node: str, state: wire.NodeState, ext: Ext | None) -> Messages:
    original, done = given(ext, "node"), given(ext, "done")
    name = original if isinstance(original, str) else node
    return (
        wire.StreamChunk(
            request_id=context.top,
            node=name,
            data=wire.StreamChunkData(
                request_id=context.request_id,
                node=name,
                state=state,
                done=done if isinstance(done, bool) else None,
            ),
            timestamp=context.timestamp,
        ),
    )


def _original_state(ext: Ext | None) -> wire.NodeState | None:
    """The state as a smooth server said it; what does not fit the schema is none."""
    try:
        original = given(ext, "state")
        return None if original is UNSET else msgspec.convert(original, wire.NodeState)
    except msgspec.DecodeError:
        return None


@FROM_EVENT.rule(events.ToolCallArguments, produces=(wire.StreamChunk,), fidelity=Lossy(("call",)))
def tool_call_arguments(event: events.ToolCallArguments, context: Context) -> Messages:
    """The chunk of a call, written when its arguments are complete."""
    if not event.done:
        return ()
    state = _original_state(event.ext)
    said = None if state is None else call_of(state.raw_response)
    if state is None or said is None or (said.name, said.arguments) != (event.name, event.json):
        state = wire.NodeState(raw_response=call_state(event.name, event.json))
    return _chunk(context, event.name, state, event.ext)


@FROM_EVENT.rule(events.ToolCallFinished, produces=(wire.StreamChunk,), fidelity=Lossy(("call", "summary")))
def tool_call_finished(event: events.ToolCallFinished, context: Context) -> Messages:
    """The chunk of a result: its output, else its summary."""
    output = event.output if event.output is not None else event.summary or ""
    state = _original_state(event.ext)
    said = None if state is None else result_of(state.raw_response)
    if state is None or said is None or (said.name, said.output, said.is_error) != (event.name, output, event.is_error):
        state = wire.NodeState(raw_response=result_state(event.name, output, event.is_error))
    return _chunk(context, event.name, state, event.ext)


@FROM_EVENT.rule(events.StateSnapshot, produces=(wire.StreamChunk,))
def state_snapshot(event: events.StateSnapshot, context: Context) -> Messages:
    """Any other chunk."""
    state = _original_state({"smooth.state": event.state})
    if state is None:
        context.lose(event, why="a chunk's state has four documented keys")
        return ()
    return _chunk(context, event.node, state, event.ext)


# -- errors and life -------------------------------------------------------------------------------


@FROM_EVENT.rule(events.ErrorReported, produces=(wire.ErrorEvent,), fidelity=Emulated("after the turn's content"))
def error_reported(event: events.ErrorReported, context: Context) -> Messages:
    """An error that ends nothing: without requestId, and inside a turn not before its end."""
    if context.hold(event):
        return ()
    code = code_of(event.cause, event.ext)
    return (error_event(context, code, event.text, event.ext, loose=not context.alone),)


@FROM_EVENT.rule(events.Heartbeat, produces=(wire.Keepalive,), fidelity=Lossy(("report",)))
def heartbeat(event: events.Heartbeat, context: Context) -> Messages:
    """A keepalive belongs to a request: between turns there is none."""
    if not context.turn and not context.alone:
        return ()
    data = wire.KeepaliveData(request_id=context.request_id)
    return (wire.Keepalive(request_id=context.top, data=data, timestamp=context.timestamp),)


@FROM_EVENT.rule(events.Pong, produces=(wire.Pong,))
def pong(event: events.Pong, context: Context) -> Messages:
    """Answers ping."""
    timestamp = event.at // NS_PER_MS or context.timestamp
    return (wire.Pong(request_id=context.top, data=wire.PongData(timestamp=timestamp), timestamp=timestamp),)


@FROM_EVENT.rule(Unmapped, produces=(Raw,))
def unmapped(event: Unmapped, context: Context) -> Messages:
    """A frame of unknown type: every smooth client drops it silently, so it goes on to its own dialect."""
    if event.dialect != "smooth":
        context.lose(event, why=f"a message of {event.dialect}")
        return ()
    return (msgspec.json.decode(event.raw),)


# -- what goes out with something else, or not at all -----------------------------------------------

FROM_EVENT.carried(events.MessageAppended, "the next history page")
FROM_EVENT.carried(events.TextDone, "stream_token and the terminal")
FROM_EVENT.carried(events.ReasoningStarted, "the first stream_reasoning")
FROM_EVENT.carried(events.ReasoningDone, "stream_reasoning")
FROM_EVENT.carried(events.ToolCallStarted, "the chunk with the complete arguments")
FROM_EVENT.carried(events.ApprovalResolved, "the acknowledgement and the turn going on")
FROM_EVENT.carried(events.InteractionResolved, "the acknowledgement and the turn going on")
FROM_EVENT.carried(events.UsageReported, "usage in the terminal")
FROM_EVENT.carried(events.TurnResult, "the terminal")
FROM_EVENT.carried(events.StatusChanged, "202 and the terminal")
FROM_EVENT.carried(events.BackendShutdown, "close code 1001")

FROM_EVENT.none(
    "smooth says nothing of a session to those who did not ask",
    events.SessionUpdated,
    events.SessionActivated,
    events.SessionClosed,
)
FROM_EVENT.none("smooth shows a tool's output at its end", events.ToolOutputDelta)
FROM_EVENT.none("smooth has no goals", events.GoalUpdated, events.GoalCleared)
FROM_EVENT.none("smooth has no completions", events.CompletionsListed)
FROM_EVENT.none("smooth numbers no model turns", events.ModelTurnStarted, events.ModelTurnEnded)
FROM_EVENT.none("smooth numbers no model calls", events.ModelCallStarted, events.ModelCallEnded)
FROM_EVENT.none(
    "internal to the backend",
    events.RunStarted,
    events.ModelRetry,
    events.ModelContinuation,
    events.Alert,
    events.CompactionStarted,
    events.CompactionDone,
    events.CompactionFailed,
    events.MemoryWork,
    events.McpStartup,
    events.PodInspected,
    events.PodAttached,
    events.LifecycleReport,
    events.StoreChanged,
    events.Gap,
)
