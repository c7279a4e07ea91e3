"""What a smooth server asks of the user, as canonical events."""

from __future__ import annotations

from dragoman.mappings.canonical.events import (
    ApprovalRequested,
    Event,
    InteractionInvalid,
    InteractionRequired,
    OtpInvalid,
    OtpRequired,
    OtpSent,
    OtpVerified,
)
from dragoman.mappings.canonical.values import FieldError
from dragoman.mappings.smooth.extras import raw
from dragoman.mappings.smooth.to_canonical.events import TO_EVENT, keep_envelope
from dragoman.mappings.smooth.wire import questions as wire

__all__ = ["TO_EVENT"]


@TO_EVENT.rule(wire.WriteConfirmationRequired, produces=(ApprovalRequested,))
def write_confirmation_required(message: wire.WriteConfirmationRequired) -> tuple[Event, ...]:
    """May the backend do this?"""
    asked = message.data.data
    return (ApprovalRequested(tool=asked.tool_id, description=asked.action_description, ext=keep_envelope(message)),)


@TO_EVENT.rule(wire.OtpVerificationRequired, produces=(OtpRequired,))
def otp_verification_required(message: wire.OtpVerificationRequired) -> tuple[Event, ...]:
    """A tool wants to know who the user is."""
    asked = message.data.data
    return (
        OtpRequired(
            tool=asked.tool_id,
            description=asked.action_description,
            channels=tuple(asked.available_channels),
            auth_level=asked.auth_level,
            ext=keep_envelope(message),
        ),
    )


@TO_EVENT.rule(wire.OtpSent, produces=(OtpSent,))
def otp_sent(message: wire.OtpSent) -> tuple[Event, ...]:
    """A code is on its way."""
    sent = message.data.data
    return (OtpSent(channel=sent.channel, destination=sent.masked_destination, ext=keep_envelope(message)),)


@TO_EVENT.rule(wire.OtpVerified, produces=(OtpVerified,))
def otp_verified(message: wire.OtpVerified) -> tuple[Event, ...]:
    """The code was right."""
    return (OtpVerified(request=message.request_id or "", text=message.data.data.message, ext=keep_envelope(message)),)


@TO_EVENT.rule(wire.OtpInvalid, produces=(OtpInvalid,))
def otp_invalid(message: wire.OtpInvalid) -> tuple[Event, ...]:
    """The code was wrong."""
    failed = message.data.data
    return (
        OtpInvalid(
            request=message.request_id or "",
            attempts_remaining=failed.attempts_remaining,
            text=failed.message,
            reason=failed.error or "",
            ext=keep_envelope(message),
        ),
    )


@TO_EVENT.rule(wire.InteractionRequired, produces=(InteractionRequired,))
def interaction_required(message: wire.InteractionRequired) -> tuple[Event, ...]:
    """A form for the user."""
    asked = message.data.data
    return (
        InteractionRequired(
            question=asked.interaction_id,
            kind=asked.kind,
            spec=raw(asked.spec),
            reason=asked.reason,
            ext=keep_envelope(message),
        ),
    )


@TO_EVENT.rule(wire.InteractionInvalid, produces=(InteractionInvalid,))
def interaction_invalid(message: wire.InteractionInvalid) -> tuple[Event, ...]:
    """The form was refused."""
    refused = message.data.data
    return (
        InteractionInvalid(
            request=message.request_id or "",
            question=refused.interaction_id,
            kind=refused.kind,
            errors=tuple(FieldError(field=fault.field, text=fault.message) for fault in refused.errors),
            text=refused.message,
            ext=keep_envelope(message),
        ),
    )
