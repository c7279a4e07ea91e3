"""Rules from smooth events to canonical events, without knowledge of other messages.

Only the translator knows which turn or command an event belongs to. So these rules map a 200 response to a Reply with
raw data, and an `error` to ErrorReported. The burst has the request id and the time (`envelope`).
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from dragoman.mappings.canonical import Event, Events, events
from dragoman.mappings.canonical.values import Ext, FieldError, Usage
from dragoman.mappings.dialect import BurstFacts
from dragoman.mappings.extras import raw
from dragoman.mappings.rules import Rules
from dragoman.mappings.smooth.vocabulary import CODE_OF_CAUSE, cause_of, keep
from dragoman.mappings.smooth.wire import events as wire
from dragoman.mappings.smooth.wire.events import answer_of, call_of, result_of, text_of
from dragoman.mappings.smooth.wire.values import NS_PER_MS, EventBase

TO_EVENT = Rules[[], Event]("smooth -> canonical events")

ACCEPTED = "Processing your request..."
"""The usual text of a 202 response; `ext` keeps any other text."""

DONE = "OK"
"""The usual text of a 200 response; `ext` keeps any other text."""


def envelope(message: Any) -> BurstFacts:
    """Return the request id and the time (ns) of an event. Some events have the id only in `data`."""
    request = message.request_id
    if request is None:
        request = getattr(message.data, "request_id", None) or ""
    return (request, "", None), (message.timestamp or 0) * NS_PER_MS


def keep_envelope(event: EventBase, /, **fields: object) -> Ext | None:
    """Return an `ext` with `fields` and the parts of the envelope that a burst cannot restore."""
    return keep(
        timestamp=None if event.timestamp is None else UNSET,
        requestId="" if event.request_id == "" else UNSET,
        **fields,
    )


def _unless(value: object, *usual: object) -> object:
    """Return the value, UNSET if it is one of the `usual` values."""
    return UNSET if value in usual else value


# -- answers to one request -------------------------------------------------------------------------


@TO_EVENT.rule(
    wire.ImmediateResponse,
    produces=(events.TurnAccepted, events.Reply),
    answers=(events.SessionOpened, events.SessionsListed, events.HistorySnapshot),
)
def immediate_response(message: wire.ImmediateResponse) -> Events:
    """Map a 202 to the start of a turn, and any other status to the answer to a command."""
    request = message.request_id or ""
    if message.status == 202:
        words: object = UNSET if message.message in (None, ACCEPTED) else message.message
        ext = keep_envelope(message, message=words, data=message.data or UNSET)
        return (events.TurnAccepted(request=request, ext=ext),)
    words = _unless(message.message, None, DONE)
    ext = keep_envelope(message, status=_unless(message.status, None, 200), message=words)
    return (events.Reply(request=request, result=raw(message.data), ext=ext),)


# -- the stream of a turn ---------------------------------------------------------------------------


@TO_EVENT.rule(wire.StreamToken, produces=(events.TextDelta,))
def stream_token(message: wire.StreamToken) -> Events:
    if message.timestamp is None or message.request_id == "":
        return (events.TextDelta(text=message.token, ext=keep_envelope(message)),)
    return (events.TextDelta(text=message.token),)


@TO_EVENT.rule(wire.StreamReasoning, produces=(events.ReasoningDelta,))
def stream_reasoning(message: wire.StreamReasoning) -> Events:
    return (events.ReasoningDelta(text=message.token, ext=keep_envelope(message)),)


@TO_EVENT.rule(wire.StreamPreamble, produces=(events.Preamble,))
def stream_preamble(message: wire.StreamPreamble) -> Events:
    return (events.Preamble(text=message.token, ext=keep_envelope(message)),)


@TO_EVENT.rule(
    wire.StreamChunk,
    produces=(events.ToolCallStarted, events.ToolCallArguments, events.ToolCallFinished, events.StateSnapshot),
)
def stream_chunk(message: wire.StreamChunk) -> Events:
    """Map a tool call, a tool result or any other node state. smooth has no call ids, so `call` is ""."""
    state = message.data.state
    done = UNSET if message.data.done is None else message.data.done
    only_raw = state == wire.NodeState(raw_response=state.raw_response)
    call = call_of(state.raw_response)
    if call is not None:
        kept = UNSET if only_raw and call.usual else state
        ext = keep_envelope(message, done=done, node=_unless(message.node, call.name), state=kept)
        return (
            events.ToolCallStarted(name=call.name),
            events.ToolCallArguments(name=call.name, json=call.arguments, done=True, ext=ext),
        )
    result = result_of(state.raw_response)
    if result is not None:
        kept = UNSET if only_raw and result.usual else state
        ext = keep_envelope(message, done=done, node=_unless(message.node, result.name), state=kept)
        return (events.ToolCallFinished(name=result.name, output=result.output, is_error=result.is_error, ext=ext),)
    return (events.StateSnapshot(node=message.node, state=raw(state), ext=keep_envelope(message, done=done)),)


# -- the ends of a turn -----------------------------------------------------------------------------


@TO_EVENT.rule(
    wire.EventualResponse,
    produces=(events.TurnEnded,),
    ext=(
        *("response.requestSummary", "response.suggestedNextActions"),
        *("needsEscalation", "escalationReason", "citations", "directive"),
    ),
)
def eventual_response(message: wire.EventualResponse) -> Events:
    """Map the end of a completed turn. `ext` keeps all parts of the answer that are not text."""
    answer = message.data.data
    text = text_of(answer.response) or ""
    ext = keep_envelope(
        message,
        status=UNSET if message.status == 200 else message.status,
        response=UNSET if answer.response == answer_of(text) else answer.response,
        needsEscalation=answer.needs_escalation or UNSET,
        escalationReason=UNSET if answer.escalation_reason is None else answer.escalation_reason,
        citations=UNSET if answer.citations is None else answer.citations,
        directive=answer.directive,
    )
    return (
        events.TurnEnded(end="completed", text=text, message=answer.message_id, usage=_usage(answer.usage), ext=ext),
    )


def _usage(usage: wire.TurnUsage | None) -> Usage | None:
    if usage is None:
        return None
    return Usage(input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens, cost_usd=usage.cost_usd)


@TO_EVENT.rule(wire.Cancelled, produces=(events.TurnEnded,))
def cancelled(message: wire.Cancelled) -> Events:
    return (events.TurnEnded(end="cancelled", ext=keep_envelope(message)),)


@TO_EVENT.rule(wire.ErrorEvent, produces=(events.ErrorReported,), ext=("code", "details"))
def error(message: wire.ErrorEvent) -> Events:
    """Map an error to ErrorReported. The translator decides whether it answers a request or ends a turn."""
    code = message.error.code
    cause = cause_of(code)
    ext = keep_envelope(message, code=_unless(code, CODE_OF_CAUSE[cause]), details=message.data.details)
    return (events.ErrorReported(cause=cause, text=message.error.message, ext=ext),)


# -- keepalive and pong -----------------------------------------------------------------------------


@TO_EVENT.rule(wire.Keepalive, produces=(events.Heartbeat,))
def keepalive(message: wire.Keepalive) -> Events:
    return (events.Heartbeat(request=message.request_id or message.data.request_id, ext=keep_envelope(message)),)


@TO_EVENT.rule(wire.Pong, produces=(events.Pong,))
def pong(message: wire.Pong) -> Events:
    timestamp = message.timestamp
    if timestamp is None and message.data is not None:
        timestamp = message.data.timestamp
        message = msgspec.structs.replace(message, timestamp=timestamp)
    at = (timestamp or 0) * NS_PER_MS
    return (events.Pong(request=message.request_id or "", at=at, ext=keep_envelope(message)),)


# -- questions to the user --------------------------------------------------------------------------


@TO_EVENT.rule(wire.WriteConfirmationRequired, produces=(events.ApprovalRequested,))
def write_confirmation_required(message: wire.WriteConfirmationRequired) -> Events:
    asked = message.data.data
    return (
        events.ApprovalRequested(tool=asked.tool_id, description=asked.action_description, ext=keep_envelope(message)),
    )


@TO_EVENT.rule(wire.OtpVerificationRequired, produces=(events.OtpRequired,))
def otp_verification_required(message: wire.OtpVerificationRequired) -> Events:
    asked = message.data.data
    return (
        events.OtpRequired(
            tool=asked.tool_id,
            description=asked.action_description,
            channels=tuple(asked.available_channels),
            auth_level=asked.auth_level,
            ext=keep_envelope(message),
        ),
    )


@TO_EVENT.rule(wire.OtpSent, produces=(events.OtpSent,))
def otp_sent(message: wire.OtpSent) -> Events:
    sent = message.data.data
    return (events.OtpSent(channel=sent.channel, destination=sent.masked_destination, ext=keep_envelope(message)),)


@TO_EVENT.rule(wire.OtpVerified, produces=(events.OtpVerified,))
def otp_verified(message: wire.OtpVerified) -> Events:
    return (
        events.OtpVerified(
            request=message.request_id or "", text=message.data.data.message, ext=keep_envelope(message)
        ),
    )


@TO_EVENT.rule(wire.OtpInvalid, produces=(events.OtpInvalid,))
def otp_invalid(message: wire.OtpInvalid) -> Events:
    failed = message.data.data
    return (
        events.OtpInvalid(
            request=message.request_id or "",
            attempts_remaining=failed.attempts_remaining,
            text=failed.message,
            reason=failed.error or "",
            ext=keep_envelope(message),
        ),
    )


@TO_EVENT.rule(wire.InteractionRequired, produces=(events.InteractionRequired,))
def interaction_required(message: wire.InteractionRequired) -> Events:
    asked = message.data.data
    return (
        events.InteractionRequired(
            question=asked.interaction_id,
            kind=asked.kind,
            spec=raw(asked.spec),
            reason=asked.reason,
            ext=keep_envelope(message),
        ),
    )


@TO_EVENT.rule(wire.InteractionInvalid, produces=(events.InteractionInvalid,))
def interaction_invalid(message: wire.InteractionInvalid) -> Events:
    refused = message.data.data
    return (
        events.InteractionInvalid(
            request=message.request_id or "",
            question=refused.interaction_id,
            kind=refused.kind,
            errors=tuple(FieldError(field=fault.field, text=fault.message) for fault in refused.errors),
            text=refused.message,
            ext=keep_envelope(message),
        ),
    )
