"""Rules from canonical events to smooth events, in the order of to_canonical/events.py.

Each wire message is written by exactly one kind of event: complete arguments write the chunk of a call, and TurnEnded
writes the terminal message. Events with visibility `internal` are not written. `context.asked` is the command that an
answer belongs to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from dragoman.mappings.canonical import Unmapped, commands, events
from dragoman.mappings.canonical.values import ANSWERED, Ext, Failure
from dragoman.mappings.extras import read_raw
from dragoman.mappings.losses import NOT_IN_A_MESSAGE_LIST
from dragoman.mappings.rules import Emulated, Lossy, Rules
from dragoman.mappings.smooth.from_canonical import replies
from dragoman.mappings.smooth.from_canonical.context import Context, Messages, code_of, error_event
from dragoman.mappings.smooth.to_canonical.events import ACCEPTED, DONE
from dragoman.mappings.smooth.vocabulary import CODE_OF_CAUSE, NOT_IN_SEED, carried, cause_of, given
from dragoman.mappings.smooth.wire import events as wire
from dragoman.mappings.smooth.wire.events import answer_of, call_of, call_state, result_of, result_state, text_of
from dragoman.mappings.smooth.wire.values import NS_PER_MS
from dragoman.mappings.untyped import decode_untyped

FROM_EVENT = Rules[[Context], object]("canonical events -> smooth")

CHANNELS = ("email", "sms")
OBJECT: Any = dict[str, object] | None
OTP_REASONS = ("INVALID_CODE", "MAX_ATTEMPTS", "NOT_FOUND", "EXPIRED")


# -- answers to one request -------------------------------------------------------------------------


def _done(context: Context, data: object, ext: Ext | None = None) -> Messages:
    """Return a 200 response with `data`: a struct of wire.replies, a dict or Raw, which encodes as an object."""
    return (
        wire.ImmediateResponse(
            request_id=context.envelope_id,
            status=given(ext, "status", int, 200),
            message=given(ext, "message", str, DONE),
            data=data,  # type: ignore[arg-type]  # encodes as the object that `data` is declared as
            timestamp=context.timestamp,
        ),
    )


@FROM_EVENT.rule(events.SessionOpened, produces=(wire.ImmediateResponse,), fidelity=Lossy(("title", "status")))
def session_opened(event: events.SessionOpened, context: Context) -> Messages:
    return _done(context, replies.opened(event, context.asked))


@FROM_EVENT.rule(
    events.SessionsListed, produces=(wire.ImmediateResponse,), fidelity=Lossy(("sessions.status", "sessions.archived"))
)
def sessions_listed(event: events.SessionsListed, context: Context) -> Messages:
    return _done(context, replies.listed(event))


NOT_IN_A_PAGE = (*NOT_IN_A_MESSAGE_LIST, "items.system")


@FROM_EVENT.rule(
    events.HistorySnapshot,
    produces=(wire.ImmediateResponse,),
    # two equal times become different ones, which no client misses
    fidelity=Lossy((*NOT_IN_A_PAGE, "items.at"), lost_by=lambda _event: NOT_IN_A_PAGE),
)
def history_snapshot(event: events.HistorySnapshot, context: Context) -> Messages:
    """Write a page of the history. A whole history is counted as lost: smooth clients request pages."""
    if not event.request:
        context.lose(event, why="smooth clients ask for the history in pages")
        return ()
    return _done(context, replies.history(event))


@FROM_EVENT.rule(events.TurnAccepted, produces=(wire.ImmediateResponse,))
def turn_accepted(event: events.TurnAccepted, context: Context) -> Messages:
    """Write a 202, only for the link that began the turn (docs/translation.md, rule 3.17)."""
    if not context.alone and event.request != context.request_id:
        return ()  # another link's turn, or an answer in words gave the turn to another link
    message = ACCEPTED
    data: dict[str, object] = {}
    if event.ext is not None:
        message, data = given(event.ext, "message", str, message), given(event.ext, "data", dict[str, object], data)
    return (
        wire.ImmediateResponse(
            request_id=context.envelope_id, status=202, message=message, data=data, timestamp=context.timestamp
        ),
    )


@FROM_EVENT.rule(
    events.Reply,
    produces=(wire.ImmediateResponse, wire.ErrorEvent, wire.OtpInvalid),
    fidelity=Lossy(("failure.cause",)),  # several causes share one code
)
def reply(event: events.Reply, context: Context) -> Messages:
    """Write a 200 or an error. cancel and verify_otp have no success reply (docs/dialects/smooth.md, section 3)."""
    if event.failure is not None:
        return _refusal(event.failure, context)
    if isinstance(context.asked, commands.CancelTurn | commands.AnswerOtp):
        return ()
    if event.result is UNSET:
        return _done(context, replies.acknowledged(context.asked), event.ext)
    result = read_raw(event.result, object)
    return _done(context, result if isinstance(result, dict) else {"result": result}, event.ext)


def _refusal(failure: Failure, context: Context) -> Messages:
    code, text = code_of(failure.cause, failure.ext), failure.text
    asked = context.asked
    answers = isinstance(asked, commands.ANSWERS)
    nothing = failure.cause in ("not_found", "not_running") or (answers and failure.cause == "unsupported")
    if nothing and carried(failure.ext, "code") is None:  # a backend without questions has no open question
        match asked:
            case commands.CancelTurn():
                return ()  # no turn runs: servers do not answer
            case commands.AnswerOtp() if failure.cause != "not_found":  # not_found: the session itself is unknown
                return _otp_failure(context, "NOT_FOUND", 0, failure.text)
            case commands.AnswerApproval():
                code = "NO_PENDING_CONFIRMATION"
            case commands.AnswerInteraction():
                code = "NO_PENDING_INTERACTION"
            case commands.RenameSession():
                code, text = "CONVERSATION_NOT_FOUND", text.replace("session", "conversation", 1)
    elif isinstance(asked, commands.AnswerInteraction) and code == "VALIDATION_ERROR" and text != commands.NO_VALUES:
        code = "INTERACTION_MISMATCH"  # it names another question
    return (error_event(context, code, text, failure.ext),)


# -- the stream of a turn ---------------------------------------------------------------------------


Piece = wire.StreamToken | wire.StreamReasoning | wire.StreamPreamble
PIECES: dict[type, type[Piece]] = {
    events.TextDelta: wire.StreamToken,
    events.ReasoningDelta: wire.StreamReasoning,
    events.Preamble: wire.StreamPreamble,
}
"""Events with a text -> the message that streams it."""


def _streaming(piece: type[Piece]) -> Callable[[Any, Context], Messages]:
    def rule(event: events.TextDelta | events.ReasoningDelta | events.Preamble, context: Context) -> Messages:
        token = event.text
        data = wire.TokenData(request_id=context.request_id, token=token)
        return (piece(request_id=context.envelope_id, token=token, data=data, timestamp=context.timestamp),)

    return rule


for kind, piece in PIECES.items():
    FROM_EVENT.rule(kind, produces=(piece,))(_streaming(piece))


def _chunk(context: Context, node: str, state: wire.NodeState, ext: Ext | None) -> Messages:
    done = None
    if ext is not None:
        node, done = given(ext, "node", str, node), given(ext, "done", bool, None)
    data = wire.StreamChunk.Data(request_id=context.request_id, node=node, state=state, done=done)
    return (wire.StreamChunk(request_id=context.envelope_id, node=node, data=data, timestamp=context.timestamp),)


@FROM_EVENT.rule(events.ToolCallArguments, produces=(wire.StreamChunk,), fidelity=Lossy(("call",)))
def tool_call_arguments(event: events.ToolCallArguments, context: Context) -> Messages:
    """Write the chunk of a call when its arguments are complete."""
    if not event.done:
        return ()
    state = None if event.ext is None else given(event.ext, "state", wire.NodeState, None)
    call = None if state is None else call_of(state.raw_response)
    if state is None or call is None or (call.name, call.arguments) != (event.name, event.json):
        state = wire.NodeState(raw_response=call_state(event.name, event.json))
    return _chunk(context, event.name, state, event.ext)


@FROM_EVENT.rule(events.ToolCallFinished, produces=(wire.StreamChunk,), fidelity=Lossy(("call", "summary")))
def tool_call_finished(event: events.ToolCallFinished, context: Context) -> Messages:
    """Write the chunk of a result with its output, or its summary if it has none."""
    output = event.output if event.output is not None else event.summary or ""
    state = None if event.ext is None else given(event.ext, "state", wire.NodeState, None)
    result = None if state is None else result_of(state.raw_response)
    if (
        state is None
        or result is None
        or (result.name, result.output, result.is_error) != (event.name, output, event.is_error)
    ):
        state = wire.NodeState(raw_response=result_state(event.name, output, event.is_error))
    return _chunk(context, event.name, state, event.ext)


@FROM_EVENT.rule(events.StateSnapshot, produces=(wire.StreamChunk,))
def state_snapshot(event: events.StateSnapshot, context: Context) -> Messages:
    state = read_raw(event.state, wire.NodeState)
    if state is None:
        context.lose(event, why="a chunk's state has four documented keys")
        return ()
    return _chunk(context, event.node, state, event.ext)


# -- the end of a turn: its one terminal message ----------------------------------------------------

OF_MODEL = frozenset(("model_failed", "rate_limited"))
"""The causes of errors of the model, which may leave a turn without an answer."""

UNEXPLAINED = Failure(cause="internal", text="the turn failed")
"""The failure of a turn whose backend gave no reason."""

KEPT_CAUSES = frozenset(cause for cause, code in CODE_OF_CAUSE.items() if cause_of(code) == cause)
"""The causes that have a code of their own."""


def _lost_at_end(event: events.TurnEnded) -> tuple[str, ...]:
    """Return the fields for which the terminal message of a turn has no field."""
    if event.end in ANSWERED:
        return ("end",)
    lost = ("usage",) if event.end in ("failed", "cancelled") else ("end", "usage")
    is_sent = event.failure is None or event.failure.cause in KEPT_CAUSES
    return lost if is_sent else (*lost, "failure.cause")


@FROM_EVENT.rule(
    events.TurnEnded,
    produces=(wire.EventualResponse, wire.Cancelled, wire.ErrorEvent),
    # The six ends have three forms. Only the form of an answered turn has a text, an id and usage.
    fidelity=Lossy(("end", "text", "message", "usage", "failure.cause"), lost_by=_lost_at_end),
)
def turn_ended(event: events.TurnEnded, context: Context) -> Messages:
    """Write the held errors of the turn, then its terminal message (docs/translation.md, rule 3.6).

    A turn without an answer ends with the last error of its model, if there was one: clients show no other error.
    """
    if context.earlier_text:
        event = msgspec.structs.replace(event, text=event.text[context.earlier_text :])
    failure = event.failure or UNEXPLAINED
    waited: list[events.ErrorReported] = []
    if context.held:
        waited = context.take_held_errors((failure.cause, failure.text) if event.end == "failed" else None)
    terminal: object
    if event.end == "failed":
        terminal = _error_of(failure, context)
    elif event.end not in ANSWERED:
        terminal = _cancelled(context)
    elif not event.text and waited and waited[-1].cause in OF_MODEL:
        terminal = _error_of(waited.pop(), context)
    else:
        terminal = _eventual(event, context)
    if not waited:
        return (terminal,)
    return (*[_error_of(held, context, loose=True) for held in waited], terminal)


def _error_of(failure: Failure | events.ErrorReported, context: Context, *, loose: bool = False) -> wire.ErrorEvent:
    return error_event(context, code_of(failure.cause, failure.ext), failure.text, failure.ext, loose=loose)


def _eventual(event: events.TurnEnded, context: Context) -> wire.EventualResponse:
    status = 200
    answer = wire.FinalAnswer(
        message_id=event.message or replies.derived(context.turn or context.request_id, "message"),
        response=answer_of(event.text),
        needs_escalation=False,
        usage=_usage(event, context),
    )
    if event.ext is not None:
        status = given(event.ext, "status", int, 200)
        answer = _with_details(answer, event, context)
    data = wire.EventualResponse.Data(request_id=context.request_id, status=status, data=answer)
    return wire.EventualResponse(request_id=context.envelope_id, status=status, data=data, timestamp=context.timestamp)


def _with_details(answer: wire.FinalAnswer, event: events.TurnEnded, context: Context) -> wire.FinalAnswer:
    """Return the answer with the parts of the backend's own answer that are not text."""
    ext = event.ext
    directive = given(ext, "directive", OBJECT, UNSET)
    if context.seed and directive is not UNSET:
        context.lose(event, "ext.directive", NOT_IN_SEED)
        directive = UNSET
    return msgspec.structs.replace(
        answer,
        response=_response(event),
        needs_escalation=given(ext, "needsEscalation", bool, False),
        escalation_reason=given(ext, "escalationReason", str, None),
        citations=given(ext, "citations", list[wire.Citation], None),
        directive=directive,
    )


def _response(event: events.TurnEnded) -> object:
    """Return the backend's `response`, filled with the turn's whole visible text (docs/translation.md, rule 3.7)."""
    original = given(event.ext, "response", object, UNSET)
    if original is UNSET:
        return answer_of(event.text)
    text = text_of(original)
    if text is None or text == event.text:
        return original
    return original | {"responseParts": [event.text]} if isinstance(original, dict) else answer_of(event.text)


def _usage(event: events.TurnEnded, context: Context) -> wire.TurnUsage | None:
    usage = event.usage
    if usage is None or (usage.input_tokens, usage.output_tokens, usage.cost_usd) == (None, None, None):
        return None
    if context.seed:
        context.lose(event, "usage", NOT_IN_SEED)
        return None
    return wire.TurnUsage(
        cost_usd=usage.cost_usd, prompt_tokens=usage.input_tokens, completion_tokens=usage.output_tokens
    )


def _cancelled(context: Context) -> wire.Cancelled | wire.ErrorEvent:
    if context.seed:  # seed clients do not know `cancelled` and would wait for another terminal message
        return error_event(context, "AGENT_ERROR", "the turn was cancelled")
    data = wire.Cancelled.Data(request_id=context.envelope_id, status=499)
    return wire.Cancelled(request_id=context.envelope_id, status=499, data=data, timestamp=context.timestamp)


@FROM_EVENT.rule(events.ErrorReported, produces=(wire.ErrorEvent,), fidelity=Emulated("after the turn's content"))
def error_reported(event: events.ErrorReported, context: Context) -> Messages:
    """Write an error that does not end the turn: without requestId, and held until the turn has ended."""
    if context.hold_error(event):
        return ()
    return (_error_of(event, context, loose=not context.alone),)


# -- keepalive and pong ----------------------------------------------------------------------------


@FROM_EVENT.rule(events.Heartbeat, produces=(wire.Keepalive,), fidelity=Lossy(("report",)))
def heartbeat(event: events.Heartbeat, context: Context) -> Messages:
    """Write a keepalive. It needs a request id, so none is written between turns."""
    if not context.turn and not context.alone:
        return ()
    data = wire.Keepalive.Data(request_id=context.request_id)
    return (wire.Keepalive(request_id=context.envelope_id, data=data, timestamp=context.timestamp),)


@FROM_EVENT.rule(events.Pong, produces=(wire.Pong,))
def pong(event: events.Pong, context: Context) -> Messages:
    timestamp = event.at // NS_PER_MS or context.timestamp
    return (wire.Pong(request_id=context.envelope_id, data=wire.Pong.Data(timestamp=timestamp), timestamp=timestamp),)


# -- questions to the user --------------------------------------------------------------------------


def _about_question(kind: Callable[..., object], content: object, context: Context) -> Messages:
    """Return a message about a question; its `data` has the content beside the request id."""
    data = wire.Mirror(request_id=context.request_id, data=content)
    return (kind(request_id=context.envelope_id, data=data, timestamp=context.timestamp),)


@FROM_EVENT.rule(events.ApprovalRequested, produces=(wire.WriteConfirmationRequired,), fidelity=Lossy(("question",)))
def approval_requested(event: events.ApprovalRequested, context: Context) -> Messages:
    asked = wire.WriteConfirmationRequired.Content(tool_id=event.tool, action_description=event.description)
    return _about_question(wire.WriteConfirmationRequired, asked, context)


@FROM_EVENT.rule(events.OtpRequired, produces=(wire.OtpVerificationRequired,))
def otp_required(event: events.OtpRequired, context: Context) -> Messages:
    channels = [channel for channel in event.channels if channel in CHANNELS]
    if len(channels) < len(event.channels) or not channels:
        context.lose(event, "channels", "smooth knows the channels email and sms")
    asked = wire.OtpVerificationRequired.Content(
        tool_id=event.tool,
        action_description=event.description,
        available_channels=channels or ["email"],
        auth_level=event.auth_level,
    )
    return _about_question(wire.OtpVerificationRequired, asked, context)


@FROM_EVENT.rule(events.OtpSent, produces=(wire.OtpSent,))
def otp_sent(event: events.OtpSent, context: Context) -> Messages:
    if event.channel not in CHANNELS:
        context.lose(event, why="smooth knows the channels email and sms")
        return ()
    sent = wire.OtpSent.Content(channel=event.channel, masked_destination=event.destination)
    return _about_question(wire.OtpSent, sent, context)


@FROM_EVENT.rule(events.OtpVerified, produces=(wire.OtpVerified,))
def otp_verified(event: events.OtpVerified, context: Context) -> Messages:
    return _about_question(wire.OtpVerified, wire.OtpVerified.Content(message=event.text), context)


@FROM_EVENT.rule(events.OtpInvalid, produces=(wire.OtpInvalid,))
def otp_invalid(event: events.OtpInvalid, context: Context) -> Messages:
    reason = event.reason if event.reason in OTP_REASONS else None
    if event.reason and reason is None:
        context.lose(event, "reason", "smooth has four reasons")
    return _otp_failure(context, reason, max(event.attempts_remaining, 0), event.text)


def _otp_failure(context: Context, reason: str | None, attempts: int, text: str) -> Messages:
    """Return otp_invalid, as an event or as the answer to verify_otp."""
    failed = wire.OtpInvalid.Content(error=reason, attempts_remaining=attempts, message=text)
    return _about_question(wire.OtpInvalid, failed, context)


@FROM_EVENT.rule(events.InteractionRequired, produces=(wire.InteractionRequired,))
def interaction_required(event: events.InteractionRequired, context: Context) -> Messages:
    """Write a form. Clients that cannot show it get the question in words instead."""
    if context.asks_in_words(event.kind):
        return ()
    spec = read_raw(event.spec, dict[str, object])
    if spec is None:
        context.lose(event, why="the description of a form is an object")
        return ()
    asked = wire.InteractionRequired.Content(
        interaction_id=event.question, kind=event.kind, spec=spec, reason=event.reason
    )
    return _about_question(wire.InteractionRequired, asked, context)


@FROM_EVENT.rule(events.InteractionInvalid, produces=(wire.InteractionInvalid,))
def interaction_invalid(event: events.InteractionInvalid, context: Context) -> Messages:
    """Write the refusal of a form. The schema requires at least one error."""
    faults = [wire.FieldFault(field=error.field, message=error.text) for error in event.errors]
    refused = wire.InteractionInvalid.Content(
        interaction_id=event.question,
        kind=event.kind,
        errors=faults or [wire.FieldFault(field="", message=event.text)],
        message=event.text,
    )
    return _about_question(wire.InteractionInvalid, refused, context)


@FROM_EVENT.rule(
    events.QuestionAsked,
    produces=(wire.StreamToken, wire.EventualResponse),
    fidelity=Emulated("the question in smooth's own form; in words only to a client that cannot show it"),
)
def question_asked(event: events.QuestionAsked, context: Context) -> Messages:
    """Write the question as text and end the run, for clients that cannot show its form (docs/translation.md, rule
    3.3).
    """
    if not context.asks_in_words(event.kind):
        return ()
    earlier = event.before[context.earlier_text :]
    token = f"\n\n{event.text}" if earlier else event.text
    message = replies.derived(context.turn, f"question {event.number}")
    terminal = _eventual(events.TurnEnded(end="completed", text=earlier + token, message=message), context)
    words = FROM_EVENT.functions[events.TextDelta](events.TextDelta(text=token), context)
    context.end_run(event)
    return (*words, terminal)


# -- messages of unknown type, and events without a form in smooth ---------------------------------


@FROM_EVENT.rule(Unmapped, produces=(Raw,))
def unmapped(event: Unmapped, context: Context) -> Messages:
    """Pass on a frame of unknown type, if it came from smooth: every smooth client ignores unknown types.

    It gets the request id that the client knows, in place of the one between the server and us: that of the client's
    command, or of the turn.
    """
    if event.dialect != "smooth":
        context.lose(event, why=f"a message of {event.dialect}")
        return ()
    message, request = decode_untyped(event.raw), context.envelope_id or event.request
    for part in (message, message.get("data")):
        if request and isinstance(part, dict) and "requestId" in part:
            part["requestId"] = request
    return (message,)


FROM_EVENT.carried(events.MessageAppended, "the next history page", without=("message.system",))
FROM_EVENT.carried(events.TextDone, "stream_token and the terminal message")
FROM_EVENT.carried(events.ReasoningStarted, "the first stream_reasoning")
FROM_EVENT.carried(events.ReasoningDone, "stream_reasoning")
FROM_EVENT.carried(events.ToolCallStarted, "the chunk with the complete arguments")
FROM_EVENT.carried(events.ApprovalResolved, "the acknowledgement; the turn continues")
FROM_EVENT.carried(events.InteractionResolved, "the acknowledgement; the turn continues")
FROM_EVENT.carried(events.UsageReported, "the usage in the terminal message", without=("usage.cache_read_tokens",))
FROM_EVENT.carried(events.TurnResult, "the terminal message")
FROM_EVENT.carried(events.StatusChanged, "202 and the terminal message")
FROM_EVENT.carried(events.QuestionAnswered, "further events of the turn")
FROM_EVENT.carried(events.BackendShutdown, "close code 1001", without=("reason",))

FROM_EVENT.none(
    "smooth describes a session only on request",
    events.SessionUpdated,
    events.SessionActivated,
    events.SessionClosed,
)
FROM_EVENT.none("smooth reports a tool's output only when it is complete", events.ToolOutputDelta)
FROM_EVENT.none("smooth has no goals", events.GoalUpdated, events.GoalCleared)
FROM_EVENT.none("smooth has no completions", events.CompletionsListed)
FROM_EVENT.none("smooth does not report model turns", events.ModelTurnStarted, events.ModelTurnEnded)
FROM_EVENT.none("smooth does not report model calls", events.ModelCallStarted, events.ModelCallEnded)
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
