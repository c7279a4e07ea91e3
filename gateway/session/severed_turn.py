"""Keep the open turn of a session while the connection to its backend is lost (docs/translation.md, rule 4.10).

    state       event                                        next state, and what is done
    connected   loss, nothing runs                           connected: commands without an answer fail
    connected   loss, a turn is open or an input in flight   severed: the grace begins
    severed     history: the run continues                   connected: missed events are sent, the turn continues
    severed     history: the run has ended                   connected: missed events are sent, the turn ends
    severed     history: neither                             connected: the turn fails
    severed     the grace is over, or the session is gone    connected: the turn fails

While the session is severed, inputs and answers are refused as busy and a cancel waits. No command is written a second
time: an input in flight is found in the history or fails, a stop in flight is done if the turn has ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from dragoman.gateway.session.commands import Commands
from dragoman.gateway.session.context import SessionContext
from dragoman.gateway.session.inputs import Inputs
from dragoman.gateway.session.resumed_turn import CONTENT, ResumedTurn
from dragoman.gateway.session.turn_recovery import (
    FoundTurn,
    find_turn,
    items_of_earlier_turns,
    missed_events,
    start_of_run,
    without_items,
)
from dragoman.gateway.timers import Deadline
from dragoman.mappings.canonical import Command, events
from dragoman.mappings.canonical.commands import STOPS, SubmitInput
from dragoman.mappings.canonical.values import Failure, flatten, is_chat_message
from dragoman.mappings.dialect import Loss

STARTED = CONTENT - {events.ToolCallFinished}  # a result may belong to the model turn before
UNKNOWN = Failure(cause="upstream_lost", text="the connection was lost before the backend answered")


class SeveredTurn:
    """The open turn of one session while the connection to its backend is lost, and after it is made again."""

    __slots__ = (
        "_commands",
        "_context",
        "_grace",
        "_inputs",
        "_resumed",
        "_start_unknown",
        "_states",
        "filters_events",
    )

    def __init__(self, context: SessionContext, inputs: Inputs, commands: Commands) -> None:
        self._context, self._states = context, context.states
        self._inputs = inputs
        self._commands = commands
        self._grace = Deadline(context.services.schedule)
        self._resumed: ResumedTurn | None = None
        self._start_unknown = False  # the start of the run's model turn may have been missed
        self.filters_events = False
        """True while events of the backend must pass `take`; read for each token, so it is no property."""

    def lost(self, failure: Failure, unsent: Sequence[Command]) -> bool:
        """Handle a lost connection, or a failed attempt to reconnect; return True if the turn may still continue."""
        context, commands, state = self._context, self._commands, self._context.state
        is_written = context.in_flight.input not in ("", *(command.request for command in unsent))
        may_go_on = context.upstream.lost_turn == "goes_on" and (
            is_written or state.turn is not None or state.status == "running"
        )
        if may_go_on and self._states.severed is None:
            self._sever(failure)
        for command in unsent:
            commands.give(command.request, failure)
        return may_go_on

    def _sever(self, failure: Failure) -> None:
        """Begin the grace. Fail all commands whose outcome a history cannot show."""
        context = self._context
        self._states.await_connection(failure)  # the failure of the turn unless a history comes
        self.filters_events = True
        self._grace.start(context.services.limits.reconnect_grace, self._expire)
        for request in context.in_flight.requests():
            pending = context.in_flight.find_command(request)
            if pending is not None and not isinstance(pending.command, (SubmitInput, *STOPS)):
                self._commands.give(request, failure)

    def close(self) -> None:
        """End the wait for the connection, because the turn is decided or the gateway ends."""
        self._start_unknown = False
        self._states.await_connection(None)
        self._grace.stop()
        self._forget_resumed()

    def _expire(self) -> None:
        if self._states.severed is not None:
            self._context.effects.give_up(self._states.severed)

    def take(self, items: Sequence[Any], at: int) -> list[Any]:
        """Decide the turn by the first whole history among `items`; return the events that are still to be handled."""
        new = self._with_start(self._new_events(self._after_history(items, at)))
        self.filters_events = bool(self._states.severed or self._resumed or self._start_unknown)
        return new

    def _after_history(self, items: Sequence[Any], at: int) -> list[Any]:
        n = next((i for i, item in enumerate(items) if self._states.severed and _is_whole_history(item)), None)
        if n is None:
            return list(items)
        keeps = self._apply_history(items[n], at)
        return [*items[:n], *items[n if keeps else n + 1 :]]

    def _with_start(self, items: Sequence[Any]) -> list[Any]:
        """Return `items` with the start of the model turn before its first content, if that was missed."""
        for i, item in enumerate(items if self._start_unknown and not self._states.severed else ()):
            if isinstance(item, events.ModelTurnStarted) or (
                isinstance(item, events.StatusChanged) and item.status != "running"
            ):
                self._start_unknown = False
                break
            if type(item) in STARTED:
                self._start_unknown = False
                return [*items[:i], events.ModelTurnStarted(), *items[i:]]
        return list(items)

    def _new_events(self, items: list[Any]) -> list[Any]:
        """Return the new events of a turn that continues, as far as they are complete."""
        resumed = self._resumed
        if resumed is None or self._states.severed:
            return items
        if resumed.expected:
            return resumed.new_events(items)
        self._forget_resumed()
        return items

    def _forget_resumed(self) -> None:
        """Count the events that wait for the end of their block as lost: the turn or the connection has ended."""
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            why = "the end of its block did not come"
            lost = {events.ToolCallArguments: sum(resumed.unfinished.values()), **Counter(map(type, resumed.held))}
            losses = [Loss(kind=kind.__name__, why=why, count=count) for kind, count in lost.items() if count]
            self._context.count_losses(losses)

    def _apply_history(self, history: events.HistorySnapshot, at: int) -> bool:
        """Continue, end or fail the turn as a history shows it; return True if the clients need the history itself."""
        state, failure = self._context.state, self._states.severed
        if history.status is None:  # the dialect tells no runs: its translator goes on following the turn
            self.close()
            for kind in (SubmitInput, *STOPS):
                self._commands.give_all(kind, UNKNOWN)
            self._commands.release(goes_on=state.turn is not None)
            return state.turn is None
        begin = start_of_run(state)
        found = find_turn(state, self._input(begin), history, begin)
        if failure is not None and found.verdict == "unknown":
            self._context.effects.give_up(failure)
            return True
        self.close()
        if state.transcript[state.fresh :]:  # the run has another input: the waiting one was written after it
            self._commands.give_all(SubmitInput, UNKNOWN)
        self._commands.accept_waiting(at)
        turn = state.turn
        self._start_unknown = turn is None or not (turn.in_model_turn if turn.model_turn else turn.blocks)
        self._send_missed(found, at)
        if found.verdict == "ended":
            self._context.effects.deliver(self._context.form.feed(found.ending_events(), at), at)
            self._start_unknown = False
        else:
            self._resumed = ResumedTurn(state, logged=found.ends_in_text)
        for kind in STOPS:
            self._commands.give_all(kind, UNKNOWN if found.verdict == "running" else None)
        self._commands.release(goes_on=found.verdict == "running")
        return found.verdict == "ended" or state.turn is None

    def _input(self, begin: int) -> str | None:
        """Return the text of the input that began the backend's run, None if there is none.

        That is the input which is not accepted yet or began the open turn, unless the run begins before the turn.
        """
        waiting, own = self._inputs.waiting_input, self._context.state.transcript[begin:]
        if waiting is not None and not own:
            return flatten(waiting.segments)
        first = [item for item in own if item.turn == own[0].turn]
        inputs = (item.text for item in reversed(first) if is_chat_message(item, "user"))
        return next(inputs, None)

    def _send_missed(self, found: FoundTurn, at: int) -> None:
        state = self._context.state
        if state.turn is not None:
            known, running = state.transcript[state.fresh :], found.verdict == "running"
            own = without_items(found.own, items_of_earlier_turns(state))
            events = self._with_start(missed_events(state.turn, known, own, running=running))
            if events:
                self._context.effects.deliver(self._context.form.feed(events, at), at)


def _is_whole_history(item: Any) -> bool:
    return isinstance(item, events.HistorySnapshot) and not item.request and not item.rotated
