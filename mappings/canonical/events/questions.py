"""Events by which a backend asks its user something.

An approval or an interaction parks its turn. Toward clients whose dialect has no such questions it is put in words, by
QuestionAsked and QuestionAnswered: there a question ends the client's run, not the turn
(docs/translation.md, rule 3.3).
"""

from __future__ import annotations

from msgspec import Raw

from dragoman.mappings.canonical.events.base import EventBase
from dragoman.mappings.canonical.values import FieldError, Segment

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
    "QuestionAnswered",
    "QuestionAsked",
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
    """The code was right. Answers AnswerOtp."""

    text: str
    request: str = ""


class OtpInvalid(EventBase, frozen=True, kw_only=True):
    """The code was wrong; `reason` is the dialect's own code, "" if it gave none. Answers AnswerOtp."""

    attempts_remaining: int
    text: str
    reason: str = ""
    request: str = ""


class InteractionRequired(EventBase, frozen=True, kw_only=True):
    """A form for the user: `spec` is its JSON description. Answered by AnswerInteraction."""

    question: str
    kind: str
    spec: Raw
    reason: str


class InteractionInvalid(EventBase, frozen=True, kw_only=True):
    """The answer was refused; the question stays open. Answers AnswerInteraction."""

    question: str
    kind: str
    errors: tuple[FieldError, ...]
    text: str
    request: str = ""


class InteractionResolved(EventBase, frozen=True, kw_only=True):
    """The form was filled in or declined."""

    question: str
    declined: bool = False


class QuestionAsked(EventBase, frozen=True, kw_only=True):
    """A question in words, said by the gateway, for dialects that have none.

    With `parked` the turn waits for the answer, and the client's run ends here: `before` is the turn's visible text so
    far, of which the question is no part, `number` counts such ends of the turn's runs from 1. Without it (a one-time
    code) the run goes on. `kind` is the interaction's, "" for everything else. `after_text` says that the run showed
    text before it.
    """

    text: str
    question: str = ""
    kind: str = ""
    before: str = ""
    number: int = 0
    parked: bool = False
    after_text: bool = False

    @property
    def paragraph(self) -> str:
        """The words as the next text of the run: behind other text a paragraph of their own."""
        return f"\n\n{self.text}" if self.after_text else self.text


class QuestionAnswered(EventBase, frozen=True, kw_only=True):
    """The question is answered and the turn goes on, as a run of its own where it was put in words.

    `segments` is what the user typed, () where the answer came otherwise: by another client's form, by the deadline.
    `kind`, `before` and `number` are those of the QuestionAsked that is answered, `model_turn` is the index of the
    model turn with which that run begins. Outside of any turn it begins a run for what the gateway has to say.
    """

    question: str = ""
    kind: str = ""
    before: str = ""
    number: int = 0
    model_turn: int | None = None
    segments: tuple[Segment, ...] = ()
