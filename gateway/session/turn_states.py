"""The states of a session's turn. The code follows this table, and the diagram in docs/design.md, section 5, is made
from it.

Beside the state the failure of a lost connection is kept. InFlight knows the input that will begin the next turn.

Each state and trigger is a StrEnum: its hash is that of its text, and the hash of another Enum takes a Python call.
"""

from __future__ import annotations

from enum import StrEnum

from dragoman.mappings.canonical import SessionState
from dragoman.mappings.canonical.values import Failure


class TurnState(StrEnum):
    """The state of the turn as clients see it.

    `DISCARDED`: it has ended for them, and further events of its backend are dropped.
    """

    NONE = "no turn"
    OPEN = "open"
    PARKED = "waits for an answer"
    DISCARDED = "over for clients"


class Trigger(StrEnum):
    """An occurrence that changes the state."""

    BEGUN = "input accepted, or content"
    ASKED = "question"
    ANSWERED = "answer, or the backend continues"
    ENDED = "end"
    CUT = "ended here alone"
    RAN_OUT = "the backend ends it too"
    GIVEN_UP = "backend given up"


TURN: dict[TurnState, dict[Trigger, TurnState]] = {
    TurnState.NONE: {Trigger.BEGUN: TurnState.OPEN},
    TurnState.OPEN: {
        Trigger.ASKED: TurnState.PARKED,
        Trigger.ENDED: TurnState.NONE,
        Trigger.CUT: TurnState.DISCARDED,
    },
    TurnState.PARKED: {
        Trigger.ANSWERED: TurnState.OPEN,
        Trigger.ENDED: TurnState.NONE,
        Trigger.CUT: TurnState.DISCARDED,
    },
    TurnState.DISCARDED: {
        Trigger.BEGUN: TurnState.OPEN,
        Trigger.RAN_OUT: TurnState.NONE,
        Trigger.GIVEN_UP: TurnState.NONE,
    },
}
"""The transitions of each state. A session begins in the first state."""


class TurnStates:
    """The state of one session's turn, which only `on` changes."""

    __slots__ = ("severed", "turn")

    def __init__(self, state: SessionState) -> None:
        turn = state.turn
        self.turn = TurnState.NONE
        self.severed: Failure | None = None
        """The failure of a lost connection, while the turn may still go on (docs/translation.md, rule 4.10)."""
        if turn is not None:
            self.on(Trigger.BEGUN)
            if turn.question is not None:
                self.on(Trigger.ASKED)

    def on(self, trigger: Trigger) -> None:
        """Change the state if the table has a transition for this trigger."""
        self.turn = TURN[self.turn].get(trigger, self.turn)

    def await_connection(self, failure: Failure | None) -> None:
        """Set the failure of a lost connection; None once it is known whether the turn continues."""
        self.severed = failure
