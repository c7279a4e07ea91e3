"""Questions in words, for clients whose dialect has no form for them (docs/translation.md, rule 3.3).

The gateway makes the words (gateway/session/wording.py), field by field for a form (forms.py). The question ends the
run of these clients. The backend may send more events of the turn before the answer: smooth sends the tool call right
after the question. A projection holds them back until the turn continues. The text of the question is a part of the run
that the client saw, but no store has it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from msgspec import Struct, field

from dragoman.mappings.canonical import Event, events
from dragoman.mappings.canonical.events import QuestionAnswered, QuestionAsked

HELD_MAX = 1024  # events: a backend that waits for an answer usually sends one more, the tool call


WORDS = "the question in words: the run ends, and the next input is the answer"
IN_WORDS: dict[type[Event], str] = {
    events.ApprovalRequested: WORDS,
    events.InteractionRequired: WORDS,
    events.InteractionInvalid: WORDS,
    events.OtpRequired: "the question in words; an input `code` and the number is the answer",
    events.OtpSent: "text in the run",
    events.OtpInvalid: "text in a run of its own",
    events.OtpVerified: "the refused input, sent again",
    events.ApprovalResolved: "the run that goes on",
    events.InteractionResolved: "the run that goes on",
}
"""Question events that a dialect without questions does not write itself -> the form that replaces them."""


class ParkedTurn(Struct):
    """The state of a parked turn: whether a question in words is open, and the events held until its answer."""

    parked: bool = False
    held: list[Event] = field(default_factory=list)

    def admit_events(self, events: Sequence[Event], lose: Callable[[Event, str, str], None]) -> Sequence[Event]:
        """Return the events of a batch to show now, and hold the others; call `lose` for each event past HELD_MAX.

        A QuestionAsked that parks the turn is the last event of its batch.
        """
        if self.parked:
            return self._while_parked(events, lose)
        last = events[-1]
        self.parked = type(last) is QuestionAsked and last.parked
        return events

    def _while_parked(self, events: Sequence[Event], lose: Callable[[Event, str, str], None]) -> list[Event]:
        shown: list[Event] = []
        for event in events:
            if type(event) is QuestionAnswered:
                shown += [event, *self.held]
                self.held, self.parked = [], False
            elif not self.parked or not event.comes_while_parked:
                shown.append(event)
                self.parked = self.parked or (type(event) is QuestionAsked and event.parked)
            elif len(self.held) < HELD_MAX:
                self.held.append(event)
            else:
                lose(event, "", f"more than {HELD_MAX} events while a question is open")
        return shown

    def copy(self) -> ParkedTurn:
        return ParkedTurn(parked=self.parked, held=self.held.copy())


def without_runs(stored: str, runs: Iterable[str]) -> str:
    """Return the stored text of an answer without the texts of these runs, each of which ended with a question.

    A question is all of the text of its run, or its last paragraphs.
    """
    at = 0
    for text in runs:
        if stored.startswith(text, at):
            at += len(text)
            continue
        same = bisect_left(range(len(text)), True, key=partial(_differs, text, stored, at))
        at += max(0, text.rfind("\n\n", 0, same + 2))
    return stored[at:]


def _differs(text: str, stored: str, at: int, last: int) -> bool:
    """Return True if `text` up to its character `last` is not in `stored` at the index `at`."""
    return not stored.startswith(text[: last + 1], at)
