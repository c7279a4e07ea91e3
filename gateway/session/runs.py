"""Runs: events gathered in order, folded into the state as they come, and split where a turn begins or ends.

A batch never crosses a turn's boundary (docs/design.md, section 3): each run becomes one batch.
"""

from __future__ import annotations

from msgspec import Struct

from dragoman.gateway.session.fold import FOLD, open_turn
from dragoman.mappings.canonical import Event, OpenTurn, SessionState
from dragoman.mappings.canonical.values import Origin

__all__ = ["Run", "Runs"]


class Run(Struct, kw_only=True, gc=False):
    """Events that belong to one turn ("" to none), in order.

    `ended` says that the turn's terminal is the last.
    """

    turn: str
    origin: Origin
    events: list[Event]
    ended: bool = False


class Runs:
    """The runs of one step of a session; `begin`, then any number of the others, then `finish`."""

    def __init__(self, state: SessionState) -> None:
        self.state = state
        self._runs: list[Run] = []
        self._out: list[Event] = []
        self.at = 0

    def begin(self, at: int = 0) -> None:
        """Start with what belongs to the turn that is open now, said at `at` (ns)."""
        self._runs, self.at = [], at
        self.split()

    def split(self) -> None:
        """What comes next belongs to another turn, or to another origin of it."""
        turn = self.state.turn
        run = Run(turn=turn.id if turn else "", origin=turn.origin if turn else Origin(), events=[])
        self._runs.append(run)
        self._out = run.events

    def emit(self, event: Event) -> None:
        """Add an event and fold it."""
        self._out.append(event)
        if self.state.turn is not None:
            self.state.turn.now = self.at
        function = FOLD.get(type(event))
        if function is not None:
            function(self.state, event)

    def open(self, turn: OpenTurn) -> None:
        """A turn begins here."""
        open_turn(self.state, turn)
        self.split()

    def end(self, event: Event) -> None:
        """The terminal of the open turn."""
        self.emit(event)
        self._runs[-1].ended = True
        self.split()

    def finish(self) -> list[Run]:
        """The runs that hold anything."""
        return [run for run in self._runs if run.events]
