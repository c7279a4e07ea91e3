"""What a smooth server asks of the user, and how it refuses an answer (docs/dialects/smooth.md, section 4)."""

from __future__ import annotations

from dragoman.mappings.smooth.wire.base import Closed, EventBase

__all__ = [
    "CAPABILITY_OF_KIND",
    "FieldFault",
    "Interaction",
    "InteractionData",
    "InteractionFaults",
    "InteractionInvalid",
    "InteractionInvalidData",
    "InteractionRequired",
    "OtpChallenge",
    "OtpDelivery",
    "OtpDeliveryData",
    "OtpFailure",
    "OtpFailureData",
    "OtpInvalid",
    "OtpRequiredData",
    "OtpSent",
    "OtpSuccess",
    "OtpSuccessData",
    "OtpVerificationRequired",
    "OtpVerified",
    "WriteConfirmation",
    "WriteConfirmationData",
    "WriteConfirmationRequired",
]

CAPABILITY_OF_KIND = {"identity_intake": "identity_form", "choices": "choice_chips"}
"""Kind of interaction -> what a client must claim in `supports` to be shown it (docs/dialects/smooth.md, section 6)."""


class WriteConfirmation(Closed, frozen=True, kw_only=True):
    """What the backend wants to do; `tool_id` is the tool's name."""

    tool_id: str
    action_description: str


class WriteConfirmationData(Closed, frozen=True, kw_only=True):
    """Mirror of a confirmation."""

    request_id: str
    data: WriteConfirmation


class WriteConfirmationRequired(EventBase, frozen=True, kw_only=True, tag="write_confirmation_required"):
    """The turn is parked until the user agrees or not."""

    data: WriteConfirmationData


class OtpChallenge(Closed, frozen=True, kw_only=True):
    """Which tool wants the user's identity, and how a code may reach the user (email, sms)."""

    tool_id: str
    action_description: str
    available_channels: list[str]
    auth_level: str


class OtpRequiredData(Closed, frozen=True, kw_only=True):
    """Mirror of an OTP challenge."""

    request_id: str
    data: OtpChallenge


class OtpVerificationRequired(EventBase, frozen=True, kw_only=True, tag="otp_verification_required"):
    """A tool was refused until the user is known; no park, the turn ends."""

    data: OtpRequiredData


class OtpDelivery(Closed, frozen=True, kw_only=True):
    """Where the code went."""

    channel: str
    masked_destination: str


class OtpDeliveryData(Closed, frozen=True, kw_only=True):
    """Mirror of a delivery."""

    request_id: str
    data: OtpDelivery


class OtpSent(EventBase, frozen=True, kw_only=True, tag="otp_sent"):
    """A code is on its way."""

    data: OtpDeliveryData


class OtpSuccess(Closed, frozen=True, kw_only=True):
    """Free text."""

    message: str


class OtpSuccessData(Closed, frozen=True, kw_only=True):
    """Mirror of a success."""

    request_id: str
    data: OtpSuccess


class OtpVerified(EventBase, frozen=True, kw_only=True, tag="otp_verified"):
    """The code was right; the client sends its message again."""

    data: OtpSuccessData


class OtpFailure(Closed, frozen=True, kw_only=True):
    """`error` is INVALID_CODE, MAX_ATTEMPTS, NOT_FOUND or EXPIRED."""

    error: str | None = None
    attempts_remaining: int
    message: str


class OtpFailureData(Closed, frozen=True, kw_only=True):
    """Mirror of a failure."""

    request_id: str
    data: OtpFailure


class OtpInvalid(EventBase, frozen=True, kw_only=True, tag="otp_invalid"):
    """The code was wrong."""

    data: OtpFailureData


class Interaction(Closed, frozen=True, kw_only=True):
    """A form: `spec` is its description in the words of `kind`."""

    interaction_id: str
    kind: str
    spec: dict[str, object]
    reason: str


class InteractionData(Closed, frozen=True, kw_only=True):
    """Mirror of an interaction."""

    request_id: str
    data: Interaction


class InteractionRequired(EventBase, frozen=True, kw_only=True, tag="interaction_required"):
    """The turn is parked until the form is filled in or declined."""

    data: InteractionData


class FieldFault(Closed, frozen=True, kw_only=True):
    """What is wrong with one field."""

    field: str
    message: str


class InteractionFaults(Closed, frozen=True, kw_only=True):
    """Why a form was refused."""

    interaction_id: str
    kind: str
    errors: list[FieldFault]
    message: str


class InteractionInvalidData(Closed, frozen=True, kw_only=True):
    """Mirror of a refusal."""

    request_id: str
    data: InteractionFaults


class InteractionInvalid(EventBase, frozen=True, kw_only=True, tag="interaction_invalid"):
    """The form was refused; the turn stays parked."""

    data: InteractionInvalidData
