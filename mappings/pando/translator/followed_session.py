"""Follow one session of a primary: keep its events in order, and pass them to its turn (followed_turn.py).

An event is held while it is not known to which run it belongs. The answer to an input of ours and the list of messages
show that, and both come on the other connection. Then the held events are passed on in their order, up to the first one
that must wait for something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from typing import TypeGuard

from msgspec.structs import replace

from dragoman.mappings.canonical import Event, events
from dragoman.mappings.canonical.values import Message
from dragoman.mappings.dialect import Burst, Loss, Step
from dragoman.mappings.pando.to_canonical.replies import with_text
from dragoman.mappings.pando.translator.followed_turn import FollowedTurn, Turn
from dragoman.mappings.pando.translator.known_messages import KnownMessages, up_to_input
from dragoman.mappings.pando.translator.output import OPENS, LatestCall, Output
from dragoman.mappings.pando.translator.run_input import ListCall, RunInput

HELD_MAX = 2_000  # events held until the answer to an input: ten seconds of 200 tokens, and 20 ms of work at once
ENDS_MAX = 64  # ends of runs among them: a run takes 50 us more than its events

HeldEvent = tuple[Burst[Event], Event]
"""An event, and the burst in which it came."""


class HeldEvents(list[HeldEvent]):
    """The events of one session that are held, in their order, until an answer or a list of messages comes.

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
