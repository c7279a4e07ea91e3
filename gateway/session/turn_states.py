"""The states of a session's turn: this table runs the code, and makes the diagram in docs/design.md, section 5.

Four things have a state side by side: the shown turn, the input that will begin the next turn, the requested cancel,
and the connection to the backend. A trigger moves each one that has a row for it.

Each is a StrEnum: its hash is that of its text, and the hash of another Enum takes a Python call.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from dragoman.mappings.canonical import SessionState


class TurnState(StrEnum):
    """The turn as clients see it. `DISCARDED`: it ended for them, and what its backend still says is dropped."""

    NONE = "no turn"
    OPEN = "open"
    PARKED = "waits for an answer"
    DISCARDED = "over for clients"


class InputState(StrEnum):
    """An input that was written to the backend, and is not accepted yet."""

    NONE = "no input"
    WAITING = "input waits"


class CancelState(StrEnum):
    """A request to the backend to end the turn before `cancel_deadline`."""

    NONE = "no cancel"
    ASKED = "cancel asked"


class ConnectionState(StrEnum):
    """The connection. `SEVERED`: it is lost, and the turn may still go on (docs/translation.md, rule 4.10)."""

    CONNECTED = "connected"
    SEVERED = "severed"


class Trigger(StrEnum):
    """An occurrence that moves the states."""

    BEGUN = "input accepted, or content"
    ASKED = "question"
    ANSWERED = "answer, or the backend goes on"
    ENDED = "end"
    CUT = "ended here alone"
    RAN_OUT = "the backend ends it too"
    SUBMITTED = "input written"
    SETTLED = "accepted, refused or late"
    CANCELLED = "cancel written"
    CANCEL_OVER = "refused, or the deadline"
    SEVERED = "connection lost"
    DECIDED = "found again, or the grace is over"
    GIVEN_UP = "backend given up"


State = TurnState | InputState | CancelState | ConnectionState

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

INPUT: dict[InputState, dict[Trigger, InputState]] = {
    InputState.NONE: {Trigger.SUBMITTED: InputState.WAITING},
    InputState.WAITING: {Trigger.SETTLED: InputState.NONE},
}

CANCEL: dict[CancelState, dict[Trigger, CancelState]] = {
    CancelState.NONE: {Trigger.CANCELLED: CancelState.ASKED},
    CancelState.ASKED: {
        Trigger.ENDED: CancelState.NONE,
        Trigger.CANCEL_OVER: CancelState.NONE,
        Trigger.GIVEN_UP: CancelState.NONE,
    },
}

CONNECTION: dict[ConnectionState, dict[Trigger, ConnectionState]] = {
    ConnectionState.CONNECTED: {Trigger.SEVERED: ConnectionState.SEVERED},
    ConnectionState.SEVERED: {Trigger.DECIDED: ConnectionState.CONNECTED},
}

TABLES: tuple[Mapping[Any, Mapping[Trigger, State]], ...] = (TURN, INPUT, CANCEL, CONNECTION)
"""All states: of the turn, the input, the cancel and the connection. The first of each is where a session begins."""

_SHOWN = frozenset({TurnState.OPEN, TurnState.PARKED})


class TurnStates:
    """The states of one session's turn; `on` is the only thing that moves them."""

    __slots__ = ("busy", "cancel", "connection", "input", "turn")

    def __init__(self, state: SessionState) -> None:
        turn = state.turn
        self.busy = False
        """True while a turn is open, or an input waits to be accepted."""
        self.turn = TurnState.NONE
        self.input = InputState.NONE
        self.cancel = CancelState.NONE
        self.connection = ConnectionState.CONNECTED
        if turn is not None:
            self.on(Trigger.BEGUN)
            if turn.question is not None:
                self.on(Trigger.ASKED)

    @property
    def severed(self) -> bool:
        """True while the connection is lost, and the turn may still go on."""
        return self.connection is ConnectionState.SEVERED

    def on(self, trigger: Trigger) -> None:
        """Move each state for which the table has this trigger."""
        self.turn = TURN[self.turn].get(trigger, self.turn)
        self.input = INPUT[self.input].get(trigger, self.input)
        self.cancel = CANCEL[self.cancel].get(trigger, self.cancel)
        self.connection = CONNECTION[self.connection].get(trigger, self.connection)
        self.busy = self.turn in _SHOWN or self.input is InputState.WAITING
