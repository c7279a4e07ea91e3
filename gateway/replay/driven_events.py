"""The events of a live backend that was driven, each with its turn, in the form in which they are compared.

A backend's question may reach the driver in words, if the connection between them cannot express it (a pod). The words
end the run, and the next input is the answer (docs/translation.md, rule 3.3). Such words are recognised exactly, and
replaced here by the question itself: the turn continues and its text does not contain them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET, Raw, structs

from dragoman.gateway.session.wording import Form, in_words
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import AnswerApproval, AnswerInteraction
from dragoman.mappings.canonical.events import (
    ApprovalRequested,
    ApprovalResolved,
    InteractionInvalid,
    InteractionRequired,
    InteractionResolved,
    MessageAppended,
    TextDelta,
    TurnEnded,
)

__all__ = ["DrivenEvents", "Question", "resolved", "typed"]

Question = ApprovalRequested | InteractionRequired

SKIP = "skip"
"""The input that declines a form."""

PARAGRAPH = "\n\n"
"""The separator before a question in words that follows other text."""


class DrivenEvents:
    """The log of a driver. `events` contains pairs of turn id and event."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []
        self._into = ""  # the turn that continues although its backend calls it a new one

    def take(self, turn: str, event: Any) -> None:
        """Add a delivered event."""
        if self._into and turn != self._into:
            if isinstance(event, MessageAppended) and event.message.role == "user":
                return  # the typed answer
            turn = self._into
        self.events.append((turn, event))

    def take_more(self, event: Any) -> None:
        """Add an event to the last turn that was not delivered."""
        self.events.append((self.events[-1][0], event))

    def begin(self) -> None:
        """Begin a new input, whose events belong to turns of its own."""
        self._into = ""

    def take_back(self, words: str) -> int:
        """Remove a question in words and the end of the turn after it; return the number of removed characters.

        Return 0 if the last turn does not end in these words. The next events belong to that turn.
        """
        turn = self.events[-1][0] if self.events else ""
        mine = [place for place, (of, _) in enumerate(self.events) if of == turn]
        deltas = [place for place in mine if isinstance(self.events[place][1], TextDelta)]
        text = "".join(self.events[place][1].text for place in deltas)
        if not text.endswith(words):
            return 0
        words = PARAGRAPH + words if text.endswith(PARAGRAPH + words) else words
        left = len(words)
        for place in reversed(deltas):
            delta = self.events[place][1]
            self.events[place] = turn, structs.replace(delta, text=delta.text[: max(0, len(delta.text) - left)])
            left = max(0, left - len(delta.text))
        self.events = [(of, event) for of, event in self.events if of != turn or not isinstance(event, TurnEnded)]
        self._into = turn
        return len(words)


def typed(asked: Question, answer: Command, refused: InteractionInvalid | None = None) -> Iterator[tuple[str, str]]:
    """Yield the words of a question and the input that gives this answer, once for each field of a form.

    A form without a recorded answer is declined. A form that was `refused` is filled in again from the first wrong
    field.
    """
    if isinstance(asked, ApprovalRequested):
        yield in_words(asked), "approve" if isinstance(answer, AnswerApproval) and answer.approved else "deny"
        return
    form = Form(asked)
    fault = form.again(refused) if refused is not None else ""
    values = _values(answer)
    for text in form.typed(values) if values is not None else [SKIP]:
        yield form.prompt(fault), text
        fault = form.take(text)


def resolved(asked: Question, answer: Command) -> ApprovalResolved | InteractionResolved:
    """Return the event that resolves a question with this answer."""
    if isinstance(asked, ApprovalRequested):
        return ApprovalResolved(approved=isinstance(answer, AnswerApproval) and answer.approved)
    return InteractionResolved(question=asked.question, declined=_values(answer) is None)


def _values(answer: Command) -> Raw | None:
    """Return the recorded values of a form, or None."""
    if not isinstance(answer, AnswerInteraction) or answer.declined or answer.values is UNSET:
        return None
    return answer.values
