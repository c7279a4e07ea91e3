"""A normal form whose events the test feeds by hand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from uuid import UUID

from msgspec import Raw

from dragoman.gateway.session.normal_form import NormalForm
from dragoman.gateway.session.question_form import Given
from dragoman.gateway.session.runs import Run
from dragoman.mappings.canonical import Event, SessionState
from dragoman.mappings.canonical.events import ApprovalRequested, InteractionRequired
from dragoman.mappings.canonical.values import Message, Origin

MAY_I = ApprovalRequested(tool="rm", description="Delete?")
FORM = InteractionRequired(question="i", kind="identity_intake", spec=Raw(b'{"fields": [{"key": "name"}]}'), reason="")
OURS = Origin(link="smooth-1", request="r1")


class NormalFormHarness:
    """A normal form with its state, whose events the test feeds by hand."""

    def __init__(self, *, sends_model_turns: bool = True, asks_in_words: bool = True) -> None:
        numbers = count(1)
        self.given: Given | None = None
        self.state = SessionState(id=str(UUID(int=0)))
        self.form = NormalForm(
            self.state,
            lambda: str(UUID(int=next(numbers))),
            sends_model_turns=sends_model_turns,
            puts_in_words=lambda _question: asks_in_words,
            given=lambda: self.given,
        )
        self.runs: list[Run] = []

    def accept(self, text: str = "hi") -> list[Event]:
        return self.take_runs(self.form.accept(OURS, Message(role="user", text=text), 5))

    def feed(self, *events: Event) -> list[Event]:
        return self.take_runs(self.form.feed(events, 7))

    def take_runs(self, runs: list[Run]) -> list[Event]:
        self.runs += runs
        return [event for run in runs for event in run.events]


def kinds(events: Sequence[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def accepted() -> NormalFormHarness:
    """Return a session whose turn begins with an accepted input."""
    session = NormalFormHarness()
    session.accept()
    return session


def asked(*before: Event) -> NormalFormHarness:
    """Return a session whose turn waits for an approval."""
    session = accepted()
    session.feed(*before, MAY_I)
    return session
