"""Questions to the user as a smooth server puts them, in the order of to_canonical/questions.py."""

from __future__ import annotations

import msgspec

from dragoman.mappings.canonical import events
from dragoman.mappings.rules import Lossy, Rules
from dragoman.mappings.smooth.from_canonical.context import Context, Messages
from dragoman.mappings.smooth.wire import questions as wire

__all__ = ["FROM_EVENT", "otp_failure"]

FROM_EVENT = Rules[[Context], object]("canonical events -> smooth")

CHANNELS = ("email", "sms")
OTP_REASONS = ("INVALID_CODE", "MAX_ATTEMPTS", "NOT_FOUND", "EXPIRED")


@FROM_EVENT.rule(events.ApprovalRequested, produces=(wire.WriteConfirmationRequired,), fidelity=Lossy(("question",)))
def approval_requested(event: events.ApprovalRequested, context: Context) -> Messages:
    """May the backend do this?"""
    asked = wire.WriteConfirmation(tool_id=event.tool, action_description=event.description)
    data = wire.WriteConfirmationData(request_id=context.request_id, data=asked)
    return (wire.WriteConfirmationRequired(request_id=context.top, data=data, timestamp=context.timestamp),)


@FROM_EVENT.rule(events.OtpRequired, produces=(wire.OtpVerificationRequired,))
def otp_required(event: events.OtpRequired, context: Context) -> Messages:
    """A tool wants to know who the user is."""
    channels = [channel for channel in event.channels if channel in CHANNELS]
    if len(channels) < len(event.channels) or not channels:
        context.lose(event, "channels", "smooth knows the channels email and sms")
    asked = wire.OtpChallenge(
        tool_id=event.tool,
        action_description=event.description,
        available_channels=channels or ["email"],
        auth_level=event.auth_level,
    )
    data = wire.OtpRequiredData(request_id=context.request_id, data=asked)
    return (wire.OtpVerificationRequired(request_id=context.top, data=data, timestamp=context.timestamp),)


@FROM_EVENT.rule(events.OtpSent, produces=(wire.OtpSent,))
def otp_sent(event: events.OtpSent, context: Context) -> Messages:
    """A code is on its way."""
    if event.channel not in CHANNELS:
        context.lose(event, why="smooth knows the channels email and sms")
        return ()
    sent = wire.OtpDelivery(channel=event.channel, masked_destination=event.destination)
    data = wire.OtpDeliveryData(request_id=context.request_id, data=sent)
    return (wire.OtpSent(request_id=context.top, data=data, timestamp=context.timestamp),)


@FROM_EVENT.rule(events.OtpVerified, produces=(wire.OtpVerified,))
def otp_verified(event: events.OtpVerified, context: Context) -> Messages:
    """The code was right."""
    data = wire.OtpSuccessData(request_id=context.request_id, data=wire.OtpSuccess(message=event.text))
    return (wire.OtpVerified(request_id=context.top, data=data, timestamp=context.timestamp),)


@FROM_EVENT.rule(events.OtpInvalid, produces=(wire.OtpInvalid,))
def otp_invalid(event: events.OtpInvalid, context: Context) -> Messages:
    """The code was wrong."""
    reason = event.reason if event.reason in OTP_REASONS else None
    if event.reason and reason is None:
        context.lose(event, "reason", "smooth has four reasons")
    return (otp_failure(context, reason, max(event.attempts_remaining, 0), event.text),)


def otp_failure(context: Context, reason: str | None, attempts: int, text: str) -> wire.OtpInvalid:
    """otp_invalid, as an event or as the answer to verify_otp."""
    failed = wire.OtpFailure(error=reason, attempts_remaining=attempts, message=text)
    data = wire.OtpFailureData(request_id=context.request_id, data=failed)
    return wire.OtpInvalid(request_id=context.top, data=data, timestamp=context.timestamp)


@FROM_EVENT.rule(events.InteractionRequired, produces=(wire.InteractionRequired,))
def interaction_required(event: events.InteractionRequired, context: Context) -> Messages:
    """A form for the user; who cannot show it is asked in words."""
    if context.asks_in_words(event.kind):
        return ()
    spec = msgspec.json.decode(event.spec)
    if not isinstance(spec, dict):
        context.lose(event, why="the description of a form is an object")
        return ()
    asked = wire.Interaction(interaction_id=event.question, kind=event.kind, spec=spec, reason=event.reason)
    data = wire.InteractionData(request_id=context.request_id, data=asked)
    return (wire.InteractionRequired(request_id=context.top, data=data, timestamp=context.timestamp),)


@FROM_EVENT.rule(events.InteractionInvalid, produces=(wire.InteractionInvalid,))
def interaction_invalid(event: events.InteractionInvalid, context: Context) -> Messages:
    """The form was refused; the schema wants at least one fault."""
    faults = [wire.FieldFault(field=error.field, message=error.text) for error in event.errors]
    refused = wire.InteractionFaults(
        interaction_id=event.question,
        kind=event.kind,
        errors=faults or [wire.FieldFault(field="", message=event.text)],
        message=event.text,
    )
    data = wire.InteractionInvalidData(request_id=context.request_id, data=refused)
    return (wire.InteractionInvalid(request_id=context.top, data=data, timestamp=context.timestamp),)
