"""Hold events of one session until an answer or a list of messages comes, both of which use the other connection."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, takewhile
from typing import TypeGuard

from dragoman.mappings.canonical import Event, events
from dragoman.mappings.canonical.values import Message
from dragoman.mappings.dialect import Burst
from dragoman.mappings.pando.translator.output import OPENS

HELD_MAX = 2_000  # events held until the answer to an input: ten seconds of 200 tokens, and 20 ms of work at once
ENDS_MAX = 64  # ends of runs among them: a run takes 50 us more than its events

HeldEvent = tuple[Burst[Event], Event]
"""An event, and the burst in which it came."""


class HeldEvents(list[HeldEvent]):
    """The held events of one session, in their order.

    `severed` is True if the connection was lost while they were held: their run may have ended. `ends` is the number of
    runs that end among them.
    """

    severed = False
    ends = 0

    def hold(self, burst: Burst[Event], event: Event) -> None:
        self.append((burst, event))
        self.ends += isinstance(event, events.TurnEnded)

    def note_reconnected(self) -> None:
        self.severed = bool(self)

    @property
    def full(self) -> bool:
        """True if no further event may be held."""
        return len(self) >= HELD_MAX or self.ends >= ENDS_MAX

    @property
    def runs(self) -> int:
        """The number of runs that begin among the events."""
        kinds = [events.TurnEnded, *(type(event) for _, event in self if type(event) is not events.SessionUpdated)]
        return sum(kind in OPENS and before not in OPENS for before, kind in pairwise(kinds))

    @property
    def text(self) -> str:
        """The text of the first run among the events."""
        return "".join(event.text for event in self._first_run() if isinstance(event, events.TextDelta))

    @property
    def input(self) -> Message | None:
        """The input of the first run among the events, if the primary published it."""
        return next((event.message for event in self._first_run() if is_input(event)), None)

    def _first_run(self) -> Iterator[Event]:
        return takewhile(lambda event: not isinstance(event, events.TurnEnded), (event for _, event in self))

    def take_all(self) -> list[HeldEvent]:
        return self._take(len(self))

    def take_runs(self, begun: int) -> list[HeldEvent]:
        """Take the events up to the end of the run that the first `begun` events belong to, if it has ended."""
        ends = [place for place, (_, event) in enumerate(self, 1) if isinstance(event, events.TurnEnded)]
        return self._take(next((end for end in ends if end >= begun), ends[-1]) if begun and ends else 0)

    def _take(self, count: int) -> list[HeldEvent]:
        taken, self[:count] = self[:count], []
        self.ends -= sum(isinstance(event, events.TurnEnded) for _, event in taken)
        return taken


def is_input(event: Event) -> TypeGuard[events.MessageAppended]:
    """Return True for the publication of a user's input."""
    return isinstance(event, events.MessageAppended) and event.message.role == "user"
