"""What a live backend said while it was driven: its events, each with its turn, as they are compared.

Where a backend has questions and a recording was made of one that has, but the way between them has not (a pod), a
gateway there puts a question in words: it ends the run, and what is typed next is the answer
(docs/translation.md, rule 3.3). Such words are known by being the very ones, and the question stands here as itself: no
part of the text, the turn one turn.
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
"""What declines a form."""

PARAGRAPH = "\n\n"
"""What stands before a question in words behind other text of its run."""


class DrivenEvents:
    """The log of a driver. `events` are each with the id of their turn."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []
        self._into = ""  # the turn that goes on though its backend calls it another

    def take(self, turn: str, event: Any) -> None:
        """This was delivered."""
        if self._into and turn != self._into:
            if isinstance(event, MessageAppended) and event.message.role == "user":
                return  # the typed answer
            turn = self._into
        self.events.append((turn, event))

    def take_more(self, event: Any) -> None:
        """This belongs to the last turn, though nobody delivered it."""
        self.events.append((self.events[-1][0], event))

    def begin(self) -> None:
        """A further input is said: what comes now is of turns of its own."""
        self._into = ""

    def take_back(self, words: str) -> int:
        """Take back the words of a question and the end of the turn behind them; return how many characters those were.

        It is 0 if the last turn does not end in them. What is said next belongs to that turn.
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
    """The words of a question and what is typed to give it this answer; one after the other where it has fields.

    A form whose answer was not recorded is declined. One that was `refused` is filled in again from the first wrong
    field on.
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
    """What became of a question that was answered so."""
    if isinstance(asked, ApprovalRequested):
        return ApprovalResolved(approved=isinstance(answer, AnswerApproval) and answer.approved)
    return InteractionResolved(question=asked.question, declined=_values(answer) is None)


def _values(answer: Command) -> Raw | None:
    """What a form was filled in with, as far as that is recorded."""
    if not isinstance(answer, AnswerInteraction) or answer.declined or answer.values is UNSET:
        return None
    return answer.values
