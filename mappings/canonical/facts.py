"""Properties of each type of event, as class attributes that sessions, recordings and projections read."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

from dragoman.mappings.canonical.values import End, Ext, SessionSummary, Visibility, snake_case


class Facts(Struct, frozen=True, kw_only=True, gc=False):
    """The properties of a type of event, with their default values."""

    visibility: ClassVar[Visibility] = "public"
    streamed: ClassVar[bool] = False
    """True for a piece of a text, which may be joined with the next piece."""
    of_a_turn: ClassVar[bool] = False
    """True if the event belongs to a turn. It opens one if none is open."""
    comes_while_parked: ClassVar[bool] = False
    """True if the event may come while its turn waits for an answer.

    Any other event of the turn, except ErrorReported and the answers, closes the open question first.
    """
    answers: ClassVar[Literal["always", "by_request", "never"]] = "never"
    """Tells if the event answers a command: always, if it names its request, or never."""
    gateway_adds: ClassVar[bool] = False
    """True if the gateway adds the event for backends whose dialect does not have it: it completes turns
    (docs/design.md, section 3), reports gaps and answers commands.
    """
    bookkeeping: ClassVar[bool] = False
    """True if clients lose nothing without it: it only counts steps of the model, or they can request its content."""

    def implies(self, _field: str) -> bool:
        """Return True if clients get the value of this field by other fields or by earlier events."""
        return False


class EventBase(Facts, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="type", tag=snake_case):
    """Base class of the events."""

    ext: Ext | None = None


class AnswerEvent(EventBase, frozen=True, kw_only=True):
    """Base class of answers that the gateway itself can give if the backend's dialect does not have them."""

    answers = "always"
    gateway_adds = True


class SessionNews(EventBase, frozen=True, kw_only=True):
    """Base class of descriptions of a session for subscribers. The gateway adds what a backend does not describe."""

    session: SessionSummary
    gateway_adds = True


class InternalEvent(EventBase, frozen=True, kw_only=True):
    """Base class of events that only operators see and that belong to no turn."""

    visibility = "internal"


class TurnEvent(EventBase, frozen=True, kw_only=True):
    """Base class of the events of a turn."""

    of_a_turn = True


class TurnDetail(TurnEvent, frozen=True, kw_only=True):
    """Base class of the events of a turn that may come while the turn waits for an answer."""

    comes_while_parked = True


class CallDetail(TurnDetail, frozen=True, kw_only=True):
    """Base class of the events of a tool call that has begun."""

    def implies(self, field: str) -> bool:
        """Return True for `name`: the start of the call already told it."""
        return field == "name"


class EndOfTurn(TurnEvent, frozen=True, kw_only=True):
    """Base class of the events that end a turn."""

    end: End
    gateway_adds = True

    def implies(self, field: str) -> bool:
        """Return True for fields that repeat earlier events of the turn, and for the usual end `completed`."""
        return field in ("text", "message") or (field == "end" and self.end == "completed")
