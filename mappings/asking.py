"""What a projection keeps back while its clients are asked in words (docs/translation.md, rule 3.3).

Their run is over until the question is answered, but a backend says more of the turn meanwhile: smooth tells the call
that waits right behind the question. That is shown when the turn goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct, field

from dragoman.mappings.canonical.events import Event, QuestionAnswered, QuestionAsked

__all__ = ["Asking"]

KEPT_MAX = 1024  # events: a backend that waits for an answer has said one call, as a rule


class Asking(Struct):
    """Whether a question is open to the clients of a projection, and what waits for its answer."""

    parked: bool = False
    kept: list[Event] = field(default_factory=list)

    def admit(self, events: Sequence[Event], lose: Callable[[Event, str, str], None]) -> Sequence[Event]:
        """What is shown now of a batch. A QuestionAsked that parks the turn is the last of its batch."""
        if self.parked:
            return self._while_parked(events, lose)
        last = events[-1]
        self.parked = type(last) is QuestionAsked and last.parked
        return events

    def _while_parked(self, events: Sequence[Event], lose: Callable[[Event, str, str], None]) -> list[Event]:
        shown: list[Event] = []
        for event in events:
            if type(event) is QuestionAnswered:
                shown += [event, *self.kept]
                self.kept, self.parked = [], False
            elif not self.parked or not event.comes_while_parked:
                shown.append(event)
                self.parked = self.parked or (type(event) is QuestionAsked and event.parked)
            elif len(self.kept) < KEPT_MAX:
                self.kept.append(event)
            else:
                lose(event, "", f"more than {KEPT_MAX} events while a question is open")
        return shown

    def copy(self) -> Asking:
        """An independent one in the same state."""
        return Asking(parked=self.parked, kept=self.kept.copy())
