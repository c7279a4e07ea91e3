"""What is true of every event of a kind, on its class: what sessions, recordings and projections ask about an event."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

from dragoman.mappings.canonical.values import Ext, Visibility, snake_case

__all__ = ["EventBase", "Facts", "InternalEvent", "TurnDetail", "TurnEvent"]


class Facts(Struct, frozen=True, kw_only=True, gc=False):
    """The facts about a kind of event, with their usual values.

    `streamed`: a piece of a text, which may be joined with the next. `of_a_turn`: belongs to a turn, and opens one if
    none is open. `comes_while_parked`: may come while its turn waits for an answer; anything else of the turn closes
    the question first. `waits_for_answer`: the backend waits for a client's answer. `answers`: whether it answers a
    command: always, if it names its request, or never.
    """

    visibility: ClassVar[Visibility] = "public"
    streamed: ClassVar[bool] = False
    of_a_turn: ClassVar[bool] = False
    comes_while_parked: ClassVar[bool] = False
    waits_for_answer: ClassVar[bool] = False
    answers: ClassVar[Literal["always", "by_request", "never"]] = "never"


class EventBase(Facts, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="type", tag=snake_case):
    """Base of the events."""

    ext: Ext | None = None


class InternalEvent(EventBase, frozen=True, kw_only=True):
    """Base of the events about no turn that only operators see."""

    visibility = "internal"


class TurnEvent(EventBase, frozen=True, kw_only=True):
    """Base of the events of a turn."""

    of_a_turn = True


class TurnDetail(TurnEvent, frozen=True, kw_only=True):
    """Base of the events of a turn that may come while it waits for an answer."""

    comes_while_parked = True
