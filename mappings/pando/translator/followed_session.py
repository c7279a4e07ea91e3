"""Follow one session of a primary: keep its events in order, and pass them to its turn (followed_turn.py).

An event is held while it is not known to which run it belongs. The answer to an input of ours and the list of messages
show that, and both come on the other connection. Then the held events are passed on in their order, up to the first one
that must wait for something else.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from dragoman.mappings.canonical import Event, events
from dragoman.mappings.canonical.values import Message
from dragoman.mappings.dialect import Burst, Loss, Step
from dragoman.mappings.pando.to_canonical.replies import with_text
from dragoman.mappings.pando.translator.followed_turn import FollowedTurn, Turn
from dragoman.mappings.pando.translator.held_events import HeldEvent, HeldEvents, is_input
from dragoman.mappings.pando.translator.known_messages import KnownMessages, up_to_input
from dragoman.mappings.pando.translator.output import LatestCall, Output
from dragoman.mappings.pando.translator.run_input import ListCall, RunInput


class FollowedSession:
    """The state of a session that is followed."""

    def __init__(self, latest_call: LatestCall) -> None:
        self.known = KnownMessages()
        self.list_call = ListCall()
        self.input = RunInput(self.list_call)
        self.turn = FollowedTurn(latest_call, self.known, self.input, self.list_call)
        self.held = HeldEvents()

    @property
    def is_at_rest(self) -> bool:
        """True if the session has no open turn, no held event and no call to wait for."""
        return not (self.turn.is_open or self.list_call.wanted or self.held or self.input.waits or self.turn.cause)

    def note_input(self, text: str) -> None:
        """Note an input that is sent, so that its echo is not mistaken for another client's input."""
        self.known.note_sent(text)
        self.input.submit(len(self.held))
        if not self.turn.is_open:
            self.turn.interrupt.forget()

    def note_reconnected(self, now: int) -> None:
        """Note that the connection was made again: a call of the list gets no reply, and runs may have ended unseen."""
        self.list_call.end()
        self.held.note_reconnected()
        self.turn.note_reconnected(now)

    # -- the order of events -----------------------------------------------------------------------------

    def hold_event(self, burst: Burst[Event], event: Event, now: int) -> bool:
        """Hold an event that must wait and return True; return False if it may be passed on.

        It may belong to a turn that is not accepted yet, or to the run after one whose end waits for its whole text.
        """
        begins = isinstance(event, Output) or is_input(event)
        match self.turn.state:
            case Turn.NONE:
                if isinstance(event, Output) and not self.input.waits:
                    self.input.learn(now)
                waits = self.input.waits and (begins or bool(self.held))
            case Turn.ENDING:
                waits = self.input.is_asked_for or begins or bool(self.held)
            case _:
                if self.turn.is_in_doubt(event, now):
                    self.input.doubt(now)
                waits = self.input.is_asked_for
        if not waits or self.held.full:
            return False
        self.held.hold(burst, event)
        return True

    def pass_on(self, held: Sequence[HeldEvent], now: int, step: Step[Event]) -> None:
        """Pass events that were held to the turn, in their order."""
        for burst, event in held:
            if items := self.take_event(event, now, step):
                step.bursts.append(replace(burst, items=items, request=""))

    def take_event(self, event: Event, now: int, step: Step[Event]) -> list[Event]:
        """Return the canonical events for a publication that need not wait."""
        if isinstance(event, events.TurnEnded) and not self.turn.is_open:
            step.losses.append(Loss(kind="TurnEnded", why="the end of an unseen turn"))
        return self.turn.take_event(event, now)

    def release_held(self, now: int, step: Step[Event]) -> None:
        """Pass on the held events, up to the first one that must wait for a further answer."""
        if self.input.waits:
            return
        for burst, event in self.held.take_all():
            if not self.hold_event(burst, event, now):  # the next run waits for its own input
                self.pass_on([(burst, event)], now, step)
        if self.held.severed:
            self.note_reconnected(now)

    # -- answers -----------------------------------------------------------------------------------------

    def note_answer(self, now: int) -> None:
        """Note the answer to an input; the held publications may belong to a run that another client began."""
        if self.input.answer() and self.held and self.held.input is None and not self.turn.is_open:
            self.input.learn(now)

    def take_list(self, messages: Sequence[Message] | None, now: int) -> list[Event]:
        """Return the events that follow from the result of message.list; `messages` is None if the call failed."""
        self.list_call.end()
        learning = self.input.stop_learning()
        if self.turn.is_open:
            return self.turn.take_list(messages, self.held.runs, now, in_doubt=learning)
        if messages is None:
            return []
        listed = with_text(messages)
        if learning:
            listed = self.known.up_to_run(listed, self.held.runs, self.held.text)
            self.input.find(listed, self.known.answered)
        return self.known.missed_events(listed)

    def history(self, messages: Sequence[Message]) -> events.HistorySnapshot:
        """Return a list as the history, without an answer that is not finished and without the input of a held run."""
        listed, runs = with_text(messages), self.held.runs
        if self.turn.is_open:
            listed = up_to_input(self.known.of_run(listed, self.input, runs))
        elif self.held:
            listed = self.known.before_run(listed, self.held.input, runs, self.held.text)
        self.known.note_listed(listed)
        return events.HistorySnapshot(items=listed)
