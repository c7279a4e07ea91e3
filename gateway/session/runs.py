"""The runs of one step of a session: events of one turn, in order, each folded into the state when it is emitted.

A batch never crosses a turn's boundary (docs/design.md, section 3), so a run ends where a turn, or another origin of
it, begins; each run becomes one batch.
"""

from __future__ import annotations

from msgspec import Struct

from dragoman.gateway.session.fold import FOLD, FOLD_IN_TURN
from dragoman.gateway.session.history import without_cut_off
from dragoman.gateway.session.turn_states import Trigger, TurnStates
from dragoman.mappings.canonical import Event, OpenTurn, SessionState
from dragoman.mappings.canonical.events import Gap, HistorySnapshot, ModelTurnStarted, StatusChanged, TurnEnded
from dragoman.mappings.canonical.values import Origin
from dragoman.mappings.dialect import Loss, NewId


class Run(Struct, kw_only=True, gc=False):
    """Events that belong to one turn ("" to none), in order. `ended` is True if the last one ends the turn."""

    turn: str
    origin: Origin
    events: list[Event]
    ended: bool = False


class Runs:
    """Collects the runs of one session's step: call `begin`, then any other methods, then `finish`."""

    __slots__ = ("_model_turns", "_run", "_runs", "_sends_model_turns", "at", "losses", "new_id", "state", "states")

    def __init__(self, state: SessionState, new_id: NewId, *, sends_model_turns: bool) -> None:
        self.state = state
        self.states = TurnStates(state)
        self.losses: list[Loss] = []
        self.at = 0
        self.new_id = new_id
        self._sends_model_turns = sends_model_turns  # if False, the gateway adds one to each turn, for a pod's parent
        self._model_turns = 0  # the index of the next model turn, unless the backend reports another one
        self._runs: list[Run] = []
        self._run: Run | None = None  # the newest, if the next event belongs to it

    def begin(self, at: int) -> None:
        """Begin a step; `at` is its time (ns)."""
        self._runs, self._run, self.at = [], None, at

    def finish(self) -> list[Run]:
        runs, self._runs, self._run = self._runs, [], None
        return runs

    def split(self) -> None:
        """End the run: the next events belong to another turn, or to another origin of it."""
        self._run = None

    def emit(self, event: Event) -> None:
        turn, kind = self.state.turn, type(event)
        if self._run is None:
            self._run = Run(turn=turn.id if turn else "", origin=turn.origin if turn else Origin(), events=[])
            self._runs.append(self._run)
        self._run.events.append(event)
        if turn is not None:
            turn.now = self.at
            if kind in FOLD_IN_TURN:
                FOLD_IN_TURN[kind](turn, event)
        if kind in FOLD:
            FOLD[kind](self.state, event)

    def lose(self, event: Event, why: str) -> None:
        self.losses.append(Loss(kind=type(event).__name__, why=why))

    def emit_gap(self, event: Gap) -> None:
        """Emit a Gap, and count it as a loss: not every dialect has a form for it."""
        self.losses.append(Loss(kind="Gap", why=event.text, count=max(1, event.count)))
        if event.context:
            self.state.epoch += 1  # the model has forgotten what the log has so far (rule 3.15)
        self.emit(event)

    # -- the turn --------------------------------------------------------------------------------------

    def open_turn(self, origin: Origin) -> OpenTurn:
        turn = OpenTurn(id=self.new_id(), message=self.new_id(), origin=origin, started_at=self.at)
        self.state.turn, self._run = turn, None
        self.states.on(Trigger.BEGUN)
        return turn

    def require_turn(self) -> OpenTurn:
        """Return the open turn. Without one, open a turn that the backend began (docs/translation.md, rule 3.17).

        That may be the rest of a run whose turn failed with its connection (rule 4.10).
        """
        turn = self.state.turn
        if turn is None:
            others = without_cut_off(self.state, self.state.transcript)
            if others is not None:
                self.emit(HistorySnapshot(items=tuple(others)))
            turn = self.open_turn(Origin())
            self.emit_running()
        return turn

    def emit_running(self) -> None:
        """Emit that the open turn runs, and begin its model turn if the backend reports none."""
        if self.state.status != "running":
            self.emit(StatusChanged(status="running"))
        turn = self.state.turn
        if not self._sends_model_turns and turn is not None and turn.model_turn is None:
            self.start_model_turn(ModelTurnStarted())

    def next_model_turn(self) -> int:
        """Return the index of a model turn that begins now and that the backend does not report."""
        self._model_turns += 1
        return self.last_model_turn

    @property
    def last_model_turn(self) -> int:
        """The index of the model turn that began last, 0 before the first one."""
        return max(0, self._model_turns - 1)

    def start_model_turn(self, event: ModelTurnStarted) -> None:
        """Emit the start of a model turn, with the next index of the session if its dialect does not count them."""
        if event.index is None:
            event = ModelTurnStarted(index=self.next_model_turn(), ext=event.ext)
        else:
            self._model_turns = event.index + 1
        self.emit(event)

    def end_turn(self, event: TurnEnded) -> None:
        self.states.on(Trigger.ENDED)
        self.emit(event)
        self._runs[-1].ended = True
        self._run = None
