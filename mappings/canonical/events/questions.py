"""Events by which a backend asks its user something."""

from __future__ import annotations

from msgspec import Raw

from mappings.canonical.events.base import EventBase
from mappings.canonical.values import FieldError

__all__ = [
    "ApprovalRequested",
    "ApprovalResolved",
    "InteractionInvalid",
    "InteractionRequired",
    "InteractionResolved",
    "OtpInvalid",
    "OtpRequired",
    "OtpSent",
    "OtpVerified",
]


class ApprovalRequested(EventBase, frozen=True, kw_only=True):
    """May the backend do this? Answered by AnswerApproval. `question` is the gateway's id of it."""

    tool: str
    description: str
    question: str = ""


class ApprovalResolved(EventBase, frozen=True, kw_only=True):
    """An approval was given or denied."""

    approved: bool
    question: str = ""


class OtpRequired(EventBase, frozen=True, kw_only=True):
    """A tool wants the user's identity verified; `channels` are email and sms."""

    tool: str
    description: str
    channels: tuple[str, ...]
    auth_level: str


class OtpSent(EventBase, frozen=True, kw_only=True):
    """A one-time code is on its way to the masked `destination`."""

    channel: str
    destination: str


class OtpVerified(EventBase, frozen=True, kw_only=True):
    """The code was right."""

    text: str


class OtpInvalid(EventBase, frozen=True, kw_only=True):
    """The code was wrong; `reason` is the dialect's own code, "" if it gave none."""

    attempts_remaining: int
    text: str
    reason: str = ""


class InteractionRequired(EventBase, frozen=True, kw_only=True):
    """A form for the user: `spec` is its JSON description. Answered by AnswerInteraction."""

    question: str
    kind: str
    spec: Raw
    reason: str


class InteractionInvalid(EventBase, frozen=True, kw_only=True):
    """The answer was refused; the question stays open."""

    question: str
    kind: str
    errors: tuple[FieldError, ...]
    text: str


class InteractionResolved(EventBase, frozen=True, kw_only=True):
    """The form was filled in or declined."""

    question: str
    declined: bool = False
