"""The turn of a session at a primary: gather its text, and detect its end (docs/translation.md, rule 3.6).

A pando publishes `llm.end` after a successful run and nothing after any other run, and its bridge drops tokens when
many come at once. So `message.list` is called at the end for the whole text, and after a silence to find the end. What
an event does depends on the state of the turn:

    event             NONE                     RUNNING                           ENDING
    output            begins a turn, RUNNING   is passed on; held if in doubt    held until the turn has ended
    user's message    is passed on             is passed on                      held until the turn has ended
    system message    is passed on             kept: may be why the turn fails   kept
    session.update    is passed on             wants the list                    is passed on
    llm.end           is lost                  ENDING, wants the list            is ignored
    interrupted       -                        ENDING, wants the list            -
    list              tells what was missed    NONE if it shows the end          NONE, after the missing text
    silence           -                        wants the list                    NONE after ANSWER_DEADLINE
    another primary   -                        LOST                              LOST

A LOST turn fails with the next event, or with the next check of time. Events are held while their run is not known:
until our own input is answered, or until the list has the input of a run that none of our clients asked for
(run_input.py).

Two equal lists with a silence between them show the end of a turn. After a `session.update` a run of ours is probably
over, so the silence is shorter. An open tool call allows a long silence, unless the list has its results: then the run
is not busy with it. Primaries with some model providers publish a call only when it has ended. So a session.update
without `llm.end`, or a result after which the list has no further row, allows a long silence too. Thinking of a model
and the input of such a call are not published at all, and allow two minutes (silence.py). Released primaries never
publish `llm.start`. It is added here, because clients wait for it.

No primary publishes that the stream of a model broke, or that its user cancelled a run. Text after a call without its
whole input belongs to another run, if the list has a further input. So does output after a pause, unless the primary is
one that publishes `llm.start`: then it publishes each end, too.

An interrupted run ends with the first `session.update` after `session.interrupt` was called. The update and the reply
come on two sockets in any order, so the run ends when both were read. Pando's own agent publishes no update then: its
run ends with two equal lists and a short silence between them. A refused interrupt does not end the run.

Released primaries never publish their users' input. When a run begins that none of our clients asked for, its first
events are held while `message.list` is called for that input. The list is called again at the end of the run.

A primary that reports failures sends the cause in a system message right before `llm.end` (docs/translation.md, rule
3.6). Any other system message there is in the list, and so is an answer of the assistant.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from msgspec import Struct

from dragoman.mappings.canonical import Event, events
from dragoman.mappings.canonical.values import End, Message, Usage
from dragoman.mappings.pando.to_canonical.replies import with_text
from dragoman.mappings.pando.translator.known_messages import KnownMessages
from dragoman.mappings.pando.translator.output import LatestCall, Output, StreamedOutput
from dragoman.mappings.pando.translator.run_input import ListCall, RunInput
from dragoman.mappings.pando.translator.silence import Silence
from dragoman.mappings.rfc3339 import NS

CAUSE_WAIT = 1.0  # seconds: a system message so long before `llm.end` is not the cause of a failure
INTERRUPTED_QUIET = 1.0  # seconds of silence after an accepted interrupt
ANSWER_DEADLINE = 5.0  # seconds that the end of a turn waits for its whole text: half of a call's timeout
NO_ANSWER = events.ErrorReported(cause="internal", text="the run ended without an answer")
REPLACED = events.ErrorReported(cause="upstream_lost", text="the primary was replaced by another")


class Turn(Enum):
    """The state of a session's turn."""

    NONE = auto()
    RUNNING = auto()
    ENDING = auto()
    """The end of the turn was published. The turn ends when its list has come."""
    LOST = auto()
    """The primary of the turn was replaced by another one."""


class Interrupt(Struct):
    """A `session.interrupt`: whether it was called and accepted, and whether a session.update followed the call."""

    called: bool = False
    accepted: bool = False
    updated: bool = False

    def call(self) -> None:
        """Note that the primary was asked to interrupt the run."""
        self.called, self.accepted, self.updated = True, False, False

    def forget(self) -> None:
        """Forget the call: another run begins, or the primary refused it."""
        self.called = self.accepted = self.updated = False

    @property
    def has_ended_run(self) -> bool:
        return self.accepted and self.updated


class FollowedTurn:
    """The turn of one session. `guesses` is the number of turns whose end no `llm.end` reported."""

    def __init__(self, latest_call: LatestCall, known: KnownMessages, input: RunInput, list_call: ListCall) -> None:
        self.state = Turn.NONE
        self.guesses = 0
        self.interrupt = Interrupt()
        self._known, self._input, self._list_call = known, input, list_call
        self._silence = Silence()
        self._output = StreamedOutput(latest_call)
        self._updated = False  # the last publication of the turn was a session.update
        self._published_at = 0  # ns: the last publication of the turn
        self._last: tuple[tuple[Message, ...], int] | None = None  # list and time, until something is published
        self._usage: Usage | None = None  # the usage in the end that was published
        self.cause: events.MessageAppended | None = None
        """The system message that was published last: it may be why the turn fails."""

    @property
    def is_open(self) -> bool:
        """True if the turn has not ended for its clients."""
        return self.state is not Turn.NONE

    # -- publications ------------------------------------------------------------------------------------

    def begin(self, now: int, input: str | None = None) -> None:
        """Begin a turn: our input was accepted, or an event of a turn was published."""
        self._published_at, self._updated, self._last = now, False, None
        if not self.is_open:
            self.state = Turn.RUNNING
            if input is None:  # an input of ours may be interrupted before its answer comes
                self.interrupt.forget()
            self._input.begin(input)
            self._output = self._output.next(stored=not self._known.unanswered)
        self._output.note_time(now)

    def take_event(self, event: Event, now: int) -> list[Event]:
        """Return the canonical events for a publication of this session, received at `now` (ns)."""
        if isinstance(event, events.TurnEnded):
            self._note_end(event.usage, now)
            return []
        before = self._release_cause() if self.state is not Turn.ENDING else []
        if isinstance(event, Output):
            before += self._end_published(None) if self.state is Turn.ENDING else []
            self.begin(now)
            self._silence.note_output(event, self._output, now)
            return before + self._output.take(event)
        if isinstance(event, events.MessageAppended) and self._take_message(event, now):
            return before
        if isinstance(event, events.SessionUpdated):
            self._silence.note_update(event.session, now)
            if self.is_open:
                self._note_update(now)
        return [*before, event]

    def streams(self, now: int) -> bool:
        """Return True if a piece of text only appends to the open text: it begins, ends and releases nothing."""
        return self.state is Turn.RUNNING and not self.cause and self._output.streams(now)

    def is_in_doubt(self, event: Event, now: int) -> bool:
        """Return True if an event at `now` (ns) may be output of another run: this one may have ended unseen."""
        return self.state is Turn.RUNNING and self._output.is_in_doubt(event, now)

    def add_text(self, text: str, now: int) -> None:
        """Note a piece of text that a fast reader passed on while `streams` was True."""
        self._published_at, self._updated, self._last = now, False, None
        self._output.add_text(text, now)

    def _take_message(self, event: events.MessageAppended, now: int) -> bool:
        """Note a message; return True if it is not passed on: the echo of an input, or a possible cause of failure."""
        message = event.message
        if message.role == "user" and self._known.take_echo(message.text):
            return True
        if message.role == "user":
            self._input.publish(message)
            self._known.note_published(message)
        elif self.is_open:
            self.cause, self._published_at = event, now
            return True
        return False

    def _note_update(self, now: int) -> None:
        self._published_at, self._updated = now, True
        self._last = None if self._output.calls else self._last  # the list is read again after a silence
        if not self._output.calls and self.state is Turn.RUNNING:
            self._list_call.want()
        self.interrupt.updated = self.interrupt.called
        self._end_interrupted(now)

    def accept_interrupt(self, now: int) -> None:
        """Note that the primary accepted our interrupt; the update that ends the run may come earlier or later."""
        self.interrupt.accepted = self.interrupt.called
        if self.is_open:
            self._list_call.want()
        self._end_interrupted(now)

    def _end_interrupted(self, now: int) -> None:
        if self.interrupt.has_ended_run:
            self._note_end(None, now)

    def _note_end(self, usage: Usage | None, now: int) -> None:
        """Note that the turn is over; it ends when its list has come."""
        if self.state is Turn.RUNNING:  # we may have connected after the turn
            self.state, self._usage, self._published_at = Turn.ENDING, usage, now
            self._list_call.want()

    # -- results of message.list -------------------------------------------------------------------------

    def take_list(self, messages: Sequence[Message] | None, later: int, now: int, *, in_doubt: bool) -> list[Event]:
        """Return the events that follow from the result of message.list; `messages` is None if the call failed.

        `later` is the number of runs that began after this one and whose events are held. `in_doubt` is True if only
        the list shows whether the last output belongs to this turn.
        """
        if messages is None:
            self._output.accept_unchecked(now)
            return self._end_published(None) if self.state is Turn.ENDING else []
        listed = with_text(messages)
        if in_doubt:
            return self._end_broken(listed, later, now)
        if self.state is Turn.ENDING:
            return self._end_published(self._known.of_run(listed, self._input, later))
        # Another pando may have gone on after the run.
        ended = self._end_unchanged(self._known.of_run(tuple(messages), self._input, 0), now)
        return [*ended, *self._known.missed_events(listed)] if ended else []

    def _end_broken(self, listed: tuple[Message, ...], later: int, now: int) -> list[Event]:
        """End the turn if the store has the input of another run after it; else it goes on."""
        run = self._known.of_broken_run(listed, self._input, later)
        if len(run) == len(listed):
            self._output.go_on(now)
            return []
        return self._end_unpublished(run)

    def _end_unchanged(self, rows: tuple[Message, ...], now: int) -> list[Event]:
        """End the turn if its rows of the store are the same as before the silence; else it goes on."""
        if self._last is None or self._last[0] != rows:
            self._last = rows, now
            return []
        late = self._silence.may_miss(self._published_at)
        if late and not self._known.may_be_over(rows, self._output):
            self._silence.end_reconnect(now)
            return []
        return self._end_unpublished(rows, late=late) if now - self._last[1] >= self._quiet * NS else []

    # -- the end of the turn ------------------------------------------------------------------------------

    def _end_unpublished(self, rows: tuple[Message, ...], *, late: bool = False) -> list[Event]:
        """End the turn, of which no end was published; `late` is True if the results of its calls were missed."""
        is_whole, listed = self._known.is_answered(rows) and (late or not self._output.calls), with_text(rows)
        self.guesses += 1
        end: End = "cancelled" if self.interrupt.accepted else "completed" if is_whole else "failed"
        return [
            *self._known.missing_events(listed, self._input, self._output),
            *([NO_ANSWER] if end == "failed" else []),
            *self._close(end, listed),
        ]

    def _end_published(self, listed: tuple[Message, ...] | None) -> list[Event]:
        """Return the end of the turn that was published, after any text that was missing."""
        cause, usage, self._usage = self.cause, self._usage, None
        usable = self._known.without_failure(listed, cause.message.text, self._output) if cause and listed else listed
        rest = self._known.missing_events(usable, self._input, self._output) if usable is not None else []
        counted = [events.UsageReported(usage=usage)] if usage is not None else []
        cancelled = self.interrupt.accepted
        is_answered = bool(self._output.length if usable is None else self._known.text_of_turn(usable))
        if cause is not None and not cancelled and not (is_answered and _is_stored(cause.message, usable)):
            why, self.cause = events.ErrorReported(cause="internal", text=cause.message.text), None
            return [*rest, *counted, why, *self._close("failed", listed)]
        end: End = "cancelled" if cancelled else "completed"  # llm.end says only that a run is over
        return [*rest, *counted, *self._close(end, listed)]

    def _release_cause(self) -> list[Event]:
        """Return the held system message as an ordinary message, because it is not the cause of a failure."""
        cause, self.cause = self.cause, None
        return [] if cause is None else [cause]

    def _close(self, end: End, listed: tuple[Message, ...] | None) -> list[Event]:
        """Return the last events of the turn, and reset its state."""
        self.state = Turn.NONE
        self._list_call.cancel()
        self._input.end()
        self._silence.end_calls()
        if listed is not None:
            self._known.note_whole_store(listed)
        result = [] if end == "failed" else [events.TurnResult(end=end)]
        return [*self._release_cause(), *result, events.StatusChanged(status="idle")]

    # -- time and connections ----------------------------------------------------------------------------

    def check_time(self, now: int) -> list[Event]:
        """Return the events of a turn whose wait has ended at `now` (ns), or want its list."""
        if self._input.check_time(now):
            self._output.accept_unchecked(now)
        silence = now - max(self._published_at, self._last[1] if self._last is not None else 0)
        match self.state:
            case Turn.LOST:
                return self.end_lost()
            case Turn.ENDING:
                return self._end_published(None) if silence >= ANSWER_DEADLINE * NS else []
            case Turn.RUNNING if silence >= self._quiet * NS:
                if self._silence.is_over(silence):
                    self._output.drop_calls()
                self._list_call.want()
        return self._release_cause() if silence >= CAUSE_WAIT * NS else []

    @property
    def _quiet(self) -> float:
        if self.interrupt.accepted:
            return INTERRUPTED_QUIET
        listed = self._last[0] if self._last is not None else ()
        late, ours = self._silence.may_miss(self._published_at), self._input.ours is not None
        return self._silence.allowed(
            self._output, self._known, listed, late=late, after_update=self._updated, ours=ours
        )

    def note_reconnected(self, now: int) -> None:
        """Want the list of an open turn: it may have ended while the connection was lost."""
        if self.is_open:
            self._list_call.want()
        self._silence.note_reconnected(now)

    def lose(self) -> None:
        """Note that the primary was replaced, so an open turn will get no end."""
        if self.is_open:
            self.state = Turn.LOST

    def end_lost(self) -> list[Event]:
        """End the turn that was lost as failed."""
        self._usage = None
        self._list_call.end()
        return [REPLACED, *self._close("failed", None)]


def _is_stored(message: Message, listed: Sequence[Message] | None) -> bool:
    """Return True if the list has a system message, or if there is no list. A primary stores no cause of a failure."""
    return listed is None or any(one.id == message.id and one.role == message.role for one in listed)
