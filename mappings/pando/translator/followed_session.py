"""Follow one session of a primary: gather the text of its turn, and detect its end (docs/translation.md, rule 3.6).

A pando publishes `llm.end` after a successful run and nothing after any other run, and its bridge drops tokens when
many come at once. So `message.list` is called at the end for the whole text, and after a silence to find the end. Two
equal results with a silence between them end the turn. After a `session.update` a run of ours is probably over, so the
silence is shorter. An open tool call allows a long silence, unless the list has its results: then the run is not busy
with it. Primaries with some model providers publish a call only when it has ended. So a session.update without
`llm.end`, or a result after which the list has no further row, allows a long silence too. Thinking of a model and the
input of such a call are not published at all, and allow two minutes (silence.py). Released primaries never publish
`llm.start`. It is added here, because clients wait for it.

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

from collections import OrderedDict, deque
from collections.abc import Sequence
from itertools import islice, pairwise, takewhile
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.mappings.canonical import Command, Event, commands, events
from dragoman.mappings.canonical.values import End, Message, flatten
from dragoman.mappings.dialect import Burst, Loss, Step, TextSink
from dragoman.mappings.pando.to_canonical.replies import with_text
from dragoman.mappings.pando.translator.known_messages import KnownMessages, up_to_input
from dragoman.mappings.pando.translator.output import OPENS, LatestCall, Output, StreamedOutput
from dragoman.mappings.pando.translator.run_input import RunInput
from dragoman.mappings.pando.translator.silence import Silence
from dragoman.mappings.pando.wire.topics import LlmToken
from dragoman.mappings.pando.wire.values import nanoseconds
from dragoman.mappings.rfc3339 import NS

CAUSE_WAIT = 1.0  # seconds: a system message so long before `llm.end` is not the cause of a failure
INTERRUPTED_QUIET = 1.0  # seconds of silence after an accepted interrupt
ANSWER_DEADLINE = 5.0  # seconds that the end of a turn waits for its whole text: half of a call's timeout
NO_ANSWER = events.ErrorReported(cause="internal", text="the run ended without an answer")
HELD_MAX = 10_000  # events held until the answer to an input: ten seconds of a fast model
FOLLOWED_MAX = 2_048
"""Sessions of one primary that are followed without a client; past the limit the oldest is removed.

That is twice what the gateway holds of them (gateway/backends/unused.py). Only those that wait for something are
looked at once a second; if all of them have an open turn, that takes 0.1 s of CPU, in parts.
"""
OLDEST = 8  # sessions among which the removed one has no open turn, if possible


class Interrupt(Struct):
    """A `session.interrupt`: whether it was called and accepted, and whether a session.update followed the call."""

    called: bool = False
    accepted: bool = False
    updated: bool = False

    def call(self) -> None:
        """Start again: the primary is asked to interrupt the run."""
        self.called, self.accepted, self.updated = True, False, False

    def forget(self) -> None:
        """Forget the call: another run begins, or the primary refused it."""
        self.called = self.accepted = self.updated = False

    @property
    def has_ended_run(self) -> bool:
        return self.accepted and self.updated


class HeldEvents(list[tuple[Burst[Event], Any]]):
    """Events that wait for an answer or for a list of messages, both of which come on the other connection."""

    @property
    def full(self) -> bool:
        """True if no further event may be held."""
        return len(self) >= HELD_MAX

    @property
    def runs(self) -> int:
        """The number of runs that begin among the events."""
        kinds = [events.TurnEnded, *(type(event) for _, event in self if type(event) is not events.SessionUpdated)]
        return sum(kind in OPENS and before not in OPENS for before, kind in pairwise(kinds))

    @property
    def text(self) -> str:
        """The text of the first run among the events."""
        run = takewhile(lambda event: not isinstance(event, events.TurnEnded), (event for _, event in self))
        return "".join(event.text for event in run if isinstance(event, events.TextDelta))

    def take_all(self) -> list[tuple[Burst[Event], Any]]:
        return self._take(len(self))

    def take_runs(self, begun: int) -> list[tuple[Burst[Event], Any]]:
        """Take the events up to the end of the run that the first `begun` events belong to, if it has ended."""
        ends = [place for place, (_, event) in enumerate(self, 1) if isinstance(event, events.TurnEnded)]
        return self._take(next((end for end in ends if end >= begun), ends[-1]) if begun and ends else 0)

    def _take(self, count: int) -> list[tuple[Burst[Event], Any]]:
        taken, self[:count] = self[:count], []
        return taken


class FollowedSession:
    """A session that is followed. `wants`: call `message.list` now. `guesses`: ends that no `llm.end` reported."""

    def __init__(self, latest_call: LatestCall) -> None:
        self._silence = Silence()
        self.open = self.wants = self.asked = self.is_lost = False
        self.guesses = 0
        self.interrupt, self.input = Interrupt(), RunInput()
        self._updated = False  # the last publication of the turn was a session.update
        self._output = StreamedOutput(latest_call)
        self.held = HeldEvents()
        self.held_severed = False  # the connection was lost while events were held: their run may have ended
        self.known = KnownMessages()
        self._published_at = 0
        self._last: tuple[tuple[Message, ...], int] | None = None  # list and time, until something is published
        self._ending: events.TurnEnded | None = None
        self._cause: events.MessageAppended | None = None  # the system message that was published last

    # -- commands that we send -----------------------------------------------------------------------------

    def note_input(self, text: str) -> None:
        """Note an input that is sent, so that its echo is not mistaken for another client's input."""
        self.known.note_sent(text)
        self.input.submit(len(self.held))
        self.interrupt = self.interrupt if self.open else Interrupt()

    def note_answer(self, now: int) -> None:
        """Note the answer to an input; the held publications may belong to a run that another client began."""
        if self.input.answer() and self.held and not self.open:
            self.wants = self.input.learn(now) or self.wants

    def hold_event(self, burst: Burst[Event], event: Event, now: int) -> bool:
        """Hold an event that must wait and return True; return False if it may be passed on.

        It may belong to a turn that is not accepted yet, or to the run after one whose end waits for its whole text.
        """
        opens = isinstance(event, Output)
        if self.open:
            begins = opens or (isinstance(event, events.MessageAppended) and event.message.role == "user")
            if self._ending is None and self._output.is_in_doubt(event, now):
                self.wants = self.input.doubt(now) or self.wants
            waits = (self._ending is not None and (self.held or begins)) or self.input.is_asked_for
        else:
            if opens and not self.input.waits:
                self.wants = self.input.learn(now) or self.wants
            waits = self.input.waits and (self.held or opens)
        if not waits or self.held.full:
            return False
        self.held.append((burst, event))
        return True

    def begin_turn(self, now: int, input: str | None = None) -> None:
        """Begin a turn: our input was accepted, or an event of a turn was published."""
        self._published_at, self._updated, self._last = now, False, None
        if not self.open:
            self.open, self._ending = True, None
            if input is None:  # an input of ours may be interrupted before its answer comes
                self.interrupt.forget()
            self.input.begin(input)
            self._output = self._output.next(stored=not self.known.unanswered)
        self._output.note_time(now)

    def accept_interrupt(self, now: int) -> None:
        """Note that the primary accepted our interrupt; the update that ends the run may come earlier or later."""
        self.interrupt.accepted = self.interrupt.called
        self.wants = self.wants or self.open
        self._end_interrupted(now)

    # -- publications ------------------------------------------------------------------------------------

    def take_event(self, event: Event, now: int) -> list[Event]:
        """Return the canonical events for a publication of this session, received at `now` (ns)."""
        before = self._release_cause() if self._ending is None and not isinstance(event, events.TurnEnded) else []
        if isinstance(event, Output):
            before += self._end_published(None) if self._ending is not None else []
            self.begin_turn(now)
            self._silence.note_output(event, self._output, now)
            return before + self._output.take(event)
        match event:
            case events.TurnEnded():
                self._note_end(event, now)
                return before
            case events.MessageAppended() if self._take_message(event, now):
                return before
            case events.SessionUpdated():
                self._silence.note_update(event.session, now)
                if self.open:
                    self._note_update(now)
        return [*before, event]

    def streams(self, now: int) -> bool:
        """Return True if a piece of text only appends to the open text: it begins, ends and releases nothing."""
        return self.open and not (self._ending or self._cause or self.held) and self._output.streams(now)

    def add_text(self, text: str, now: int) -> None:
        """Note a piece of text that a fast reader passed on while `streams` was True."""
        self._published_at, self._updated, self._last = now, False, None
        self._output.add_text(text, now)

    def _take_message(self, event: events.MessageAppended, now: int) -> bool:
        """Note a message; return True if it is not passed on: the echo of an input, or a possible cause of failure."""
        message = event.message
        if message.role == "user" and self.known.take_echo(message.text):
            return True
        if message.role == "user":
            self.input.publish(message)
            self.known.note_published(message)
        elif self.open:
            self._cause, self._published_at = event, now
            return True
        return False

    def _note_update(self, now: int) -> None:
        self._published_at, self._updated = now, True
        self._last = None if self._output.calls else self._last  # the list is read again after a silence
        self.wants = self.wants or (not self._output.calls and self._ending is None)
        self.interrupt.updated = self.interrupt.called
        self._end_interrupted(now)

    def _end_interrupted(self, now: int) -> None:
        if self.interrupt.has_ended_run:
            self._note_end(events.TurnEnded(end="cancelled"), now)

    def _note_end(self, event: events.TurnEnded, now: int) -> None:
        """Note that the turn is over; it ends when its list has come."""
        if self.open and self._ending is None:  # if we connected after the turn, there is nothing to end
            self._ending, self._published_at, self.wants = event, now, True

    # -- results of message.list -------------------------------------------------------------------------

    def take_list(self, messages: Sequence[Message] | None, now: int) -> list[Event]:
        """Return the events that follow from the result of message.list; `messages` is None if the call failed."""
        self.asked = self.wants = False
        learning = self.input.stop_learning()
        if messages is None:
            self._output.accept_unchecked(now)
            return self._end_published(None) if self._ending is not None else []
        rows, listed = tuple(messages), with_text(messages)
        if not self.open and learning:
            listed = self.known.up_to_run(listed, self.held.runs, self.held.text)
            self.input.find(listed, self.known.answered)
        if not self.open:
            return self.known.missed_events(listed)
        if learning:
            return self._end_broken(listed, now)
        if self._ending is not None:
            return self._end_published(self.known.of_run(listed, self.input, self.held.runs))
        rows = self.known.of_run(rows, self.input, 0)  # another pando may have gone on after the run
        if self._last is None or self._last[0] != rows:
            self._last = rows, now
            return []
        late = self._silence.may_miss(self._published_at)
        if late and not self.known.may_be_over(rows, self._output):
            self._silence.end_reconnect(now)
            return []
        if now - self._last[1] < self._quiet * NS:
            return []
        return [*self._end_unpublished(rows, late=late), *self.known.missed_events(listed)]

    def _end_broken(self, listed: tuple[Message, ...], now: int) -> list[Event]:
        """End the turn if the store has the input of another run after it; else it goes on."""
        run = self.known.of_broken_run(listed, self.input, self.held.runs)
        if len(run) == len(listed):
            self._output.go_on(now)
            return []
        return self._end_unpublished(run)

    def _end_unpublished(self, rows: tuple[Message, ...], *, late: bool = False) -> list[Event]:
        """End the turn, of which no end was published; `late` is True if the results of its calls were missed."""
        is_whole, listed = self.known.is_answered(rows) and (late or not self._output.calls), with_text(rows)
        self.guesses += 1
        end: End = "cancelled" if self.interrupt.accepted else "completed" if is_whole else "failed"
        return [*self._missing_text(listed), *([NO_ANSWER] if end == "failed" else []), *self._close_turn(end, listed)]

    def _end_published(self, listed: tuple[Message, ...] | None) -> list[Event]:
        """Return the end of the turn that was published, after any text that was missing."""
        cause, ending, self._ending = self._cause, self._ending, None
        told = self.known.without_failure(listed, cause.message.text, self._output) if cause and listed else listed
        rest = self._missing_text(told) if told is not None else []
        counted = [events.UsageReported(usage=ending.usage)] if ending is not None and ending.usage is not None else []
        cancelled = self.interrupt.accepted
        is_answered = bool(self._output.length if told is None else self.known.text_of_turn(told))
        if cause is not None and not cancelled and not (is_answered and _is_stored(cause.message, told)):
            why, self._cause = events.ErrorReported(cause="internal", text=cause.message.text), None
            return [*rest, *counted, why, *self._close_turn("failed", listed)]
        end: End = "cancelled" if cancelled else "completed"  # llm.end says only that a run is over
        return [*rest, *counted, *self._close_turn(end, listed)]

    def _release_cause(self) -> list[Event]:
        """Return the held system message as an ordinary message, because it is not the cause of a failure."""
        cause, self._cause = self._cause, None
        return [] if cause is None else [cause]

    def _close_turn(self, end: End, listed: tuple[Message, ...] | None) -> list[Event]:
        """Return the last events of the turn, and reset its state."""
        self.open = self.wants = False
        self.input.end()
        self._silence.end_calls()
        if listed is not None:
            self.known.note_whole_store(listed)
        result = [] if end == "failed" else [events.TurnResult(end=end)]
        return [*self._release_cause(), *result, events.StatusChanged(status="idle")]

    def _missing_text(self, listed: tuple[Message, ...]) -> list[Event]:
        """Return the stored text that was not published, or a gap if the two differ (docs/translation.md, rule 3.7)."""
        stored, continues = self.known.text_of_turn(listed), self.known.continues(listed)
        return [*self.known.missed_inputs(listed, self.input.ours), *self._output.rest(stored, continues=continues)]

    # -- time --------------------------------------------------------------------------------------------

    def check_time(self, now: int) -> list[Event]:
        """Return the events of a turn whose wait has ended at `now` (ns), or set `wants` if its list is needed."""
        if self.is_lost:
            return self.end_lost_turn()
        if self.input.check_time(now):
            self._output.accept_unchecked(now)
        silence = now - max(self._published_at, self._last[1] if self._last is not None else 0)
        if self._ending is not None and silence >= ANSWER_DEADLINE * NS:
            return self._end_published(None)
        if self.open and self._ending is None and silence >= self._quiet * NS:
            if self._silence.is_over(silence):
                self._output.drop_calls()
            self.wants = True
        return self._release_cause() if self._ending is None and silence >= CAUSE_WAIT * NS else []

    @property
    def is_at_rest(self) -> bool:
        """True if it waits for nothing that `check_time` ends, and holds no event."""
        return not (self.open or self.wants or self.held or self.input.waits or self._ending or self._cause)

    @property
    def _quiet(self) -> float:
        if self.interrupt.accepted:
            return INTERRUPTED_QUIET
        listed = self._last[0] if self._last is not None else ()
        late, ours = self._silence.may_miss(self._published_at), self.input.ours is not None
        return self._silence.allowed(self._output, self.known, listed, late=late, after_update=self._updated, ours=ours)

    def reconnected(self, now: int) -> None:
        """Set `wants` if a turn is open: it may have ended while the connection was lost."""
        self.asked, self.wants, self.held_severed = False, self.open, bool(self.held)
        self._silence.note_reconnected(now)

    def end_lost_turn(self) -> list[Event]:
        """End the turn that was lost as failed, because its primary is gone."""
        self.is_lost = self.asked = False
        self._ending = None
        why = events.ErrorReported(cause="upstream_lost", text="the primary was replaced by another")
        return [why, *self._close_turn("failed", None)]


def _is_stored(message: Message, listed: Sequence[Message] | None) -> bool:
    """Return True if the list has a system message, or if there is no list. A primary stores no cause of a failure."""
    return listed is None or any(one.id == message.id and one.role == message.role for one in listed)


class FollowedSessions(dict[str, FollowedSession]):
    """The followed sessions of one primary: session id -> state."""

    def __init__(self) -> None:
        super().__init__()
        self._latest_call = LatestCall()
        self._touched: OrderedDict[str, None] = OrderedDict()  # sessions that may want their messages
        self._active: dict[str, None] = {}  # sessions that may not be at rest
        self._unchecked: deque[str] = deque()  # those of them that `touch_active` returns next
        self._unwatched: dict[str, None] = {}  # sessions that no client is attached to, the oldest first

    def follow(self, session: str) -> FollowedSession:
        """Return the state of a session, and follow the session if it is new."""
        self._touched[session] = self._active[session] = None
        following = self.get(session)
        if following is None:
            if len(self._unwatched) >= FOLLOWED_MAX:
                oldest = list(islice(self._unwatched, OLDEST))
                self._remove(next((s for s in oldest if not self[s].open), oldest[0]))
            following = self[session] = FollowedSession(self._latest_call)
            self._unwatched[session] = None
        return following

    def watch(self, session: str) -> None:
        """Follow a session to which a client is attached: its history is requested from each new primary."""
        self.follow(session)
        self._unwatched.pop(session, None)

    def is_watched(self, session: str) -> bool:
        """Return True if a client is attached to this followed session."""
        return session not in self._unwatched

    def add_text(self, message: LlmToken, now: int, add_text: TextSink) -> bool:
        """Pass a token to the sink and note it; return False if `receive` must read it instead."""
        token, at = message.payload, nanoseconds(message.timestamp) or 0
        following = self.get(token.session_id)
        if following is None or following.is_lost or not following.streams(now):
            return False
        if not add_text(token.token, at, token.session_id):
            return False
        following.add_text(token.token, now)
        return True

    def add_pieces(self, session: str, pieces: Sequence[events.TextDelta], now: int) -> bool:
        """Note pieces that only append to the open text; return False if `take_event` must take them one by one."""
        following = self.get(session)
        if following is None or following.is_lost or not following.streams(now):
            return False
        following.add_text("".join(piece.text for piece in pieces), now)
        return True

    def lose_turns(self) -> None:
        """Mark all open turns as lost with their primary: each ends with its session's next event or check of time."""
        self._latest_call.is_hidden = False
        for following in self.values():
            following.is_lost = following.open

    def current(self, session: str, step: Step[Event]) -> FollowedSession:
        """Return the state of a session like `follow`, after the end of a turn that was lost."""
        following = self.follow(session)
        if following.is_lost:
            step.bursts.append(Burst(items=following.end_lost_turn(), session=session))
        return following

    def forget(self, session: str) -> None:
        """Stop following a session; one with an open turn stays until the limit removes it."""
        following = self.get(session)
        if following is not None and not (following.open or following.input.waits):
            self._remove(session)
        elif following is not None:
            self._unwatched[session] = None

    def _remove(self, session: str) -> None:
        del self[session]
        self._unwatched.pop(session, None)
        self._touched.pop(session, None)

    def reconnected(self, now: int) -> None:
        """Mark the sessions with open turns, so that their messages are requested on the new connection."""
        self._touched = OrderedDict.fromkeys(self)
        for following in self.values():
            following.reconnected(now)

    def touch_active(self, most: int) -> list[tuple[str, FollowedSession]]:
        """Return the next sessions that are not at rest, and mark them for the next `take_wanting`.

        At most so many are looked at. After all of them (`all_checked`) it starts again.
        """
        if self.all_checked:
            self._unchecked, self._active = deque(self._active), {}
        some = [self._unchecked.popleft() for _ in range(min(most, len(self._unchecked)))]
        active = [(s, self[s]) for s in some if s in self and not self[s].is_at_rest]
        touched = {session: None for session, _ in active}
        self._active |= touched
        self._touched |= touched
        return active

    @property
    def all_checked(self) -> bool:
        """True if `touch_active` has returned every session that is not at rest."""
        return not self._unchecked

    def take_wanting(self, most: int) -> list[str]:
        """Return the next sessions whose messages must be asked for, at most so many, and mark them as asked.

        Only those are looked at that were followed or touched since they were looked at last.
        """
        wanting: list[str] = []
        while self._touched and len(wanting) < most:
            session, _ = self._touched.popitem(last=False)
            if session in self and self[session].wants and not self[session].asked:
                self[session].wants, self[session].asked = False, True
                wanting.append(session)
        return wanting

    # -- what the primary tells of a session: events that are added to a step ----------------------------

    def take_event(self, burst: Burst[Event], event: Event, now: int, step: Step[Event]) -> list[Event]:
        """Return the canonical events for a publication that was received at `now` (ns); none if it is held."""
        following = self.current(burst.session, step)
        if isinstance(event, events.SessionClosed):
            following.input.stop_learning()
            _release_held(following, now, step)
        if following.hold_event(burst, event, now):
            return []
        _pass_on(following, following.held.take_all(), now, step)  # no further event may be held
        return _follow_on(following, event, now, step)

    def begin_turn(self, session: str, input: str, now: int, step: Step[Event]) -> None:
        """Begin the turn of our accepted input, after the runs of others whose events came before it was sent."""
        following = self.current(session, step)
        earlier = following.held.take_runs(following.input.held)
        _pass_on(following, earlier, now, step)
        if earlier:
            step.bursts.append(Burst(items=following.take_list(None, now), session=session))
        following.begin_turn(now, input)

    def note_answer(self, session: str, now: int, step: Step[Event]) -> None:
        """Pass on the events that were held until the answer to an input."""
        following = self.current(session, step)
        following.note_answer(now)
        _release_held(following, now, step)

    def take_list(self, session: str, messages: Sequence[Message] | None, now: int, step: Step[Event]) -> None:
        """Add what follows from the result of message.list; `messages` is None if the call failed."""
        following = self.current(session, step)
        before = following.guesses
        items = following.take_list(messages, now)
        if messages is not None and any(isinstance(item, events.Gap) for item in items):
            items.append(_history_of(following, messages))  # the store is right
        if items:
            step.bursts.append(Burst(items=items, session=session))
        if following.guesses > before:
            step.losses.append(Loss(kind="TurnEnded", why="the end was inferred from message.list"))
        _release_held(following, now, step)

    def take_history(self, session: str, messages: Sequence[Message] | None, now: int, step: Step[Event]) -> None:
        """Add the history of a session; `messages` is None if the call failed."""
        following = self.current(session, step)
        if messages is not None:
            step.bursts.append(Burst(items=[_history_of(following, messages)], session=session))
            if following.held and following.input.is_asked_for and not following.open:
                self.take_list(session, messages, now, step)  # the input of the held run
        _release_held(following, now, step)

    def check_times(self, most: int, now: int, step: Step[Event]) -> None:
        """End the waits that are over at `now` (ns), in at most `most` further sessions."""
        for session, following in self.touch_active(most):
            if items := following.check_time(now):
                step.bursts.append(Burst(items=items, session=session))
            _release_held(following, now, step)

    def note_lost(self, command: commands.SubmitInput, now: int, step: Step[Event]) -> None:
        """Forget an input whose answer was lost. Its client was told so: if it runs, it counts as another client's."""
        self.note_refusal(command)
        self.note_answer(command.session, now, step)

    def note_refusal(self, command: Command) -> None:
        """Undo the state that a sent command set, because the primary refused the command."""
        following = self.get(command.session)
        if following is not None and isinstance(command, commands.CancelTurn):
            following.interrupt.forget()
        elif following is not None and isinstance(command, commands.SubmitInput):
            following.known.forget_input(flatten(command.segments))


def _history_of(following: FollowedSession, messages: Sequence[Message]) -> events.HistorySnapshot:
    """Return a list as the history, without an answer that is not finished and without the input of a held run."""
    known, runs, listed = following.known, following.held.runs, with_text(messages)
    if following.open:
        listed = up_to_input(known.of_run(listed, following.input, runs))
    elif following.held:
        listed = known.before_run(listed, runs, following.held.text)
    known.note_listed(listed)
    return events.HistorySnapshot(items=listed)


def _follow_on(following: FollowedSession, event: Event, now: int, step: Step[Event]) -> list[Event]:
    if isinstance(event, events.TurnEnded) and not following.open:
        step.losses.append(Loss(kind="TurnEnded", why="the end of an unseen turn"))
    return following.take_event(event, now)


def _pass_on(following: FollowedSession, held: Sequence[tuple[Burst[Event], Any]], now: int, step: Step[Event]) -> None:
    """Act on events that were held, in their order."""
    for burst, event in held:
        if items := _follow_on(following, event, now, step):
            step.bursts.append(replace(burst, items=items, request=""))


def _release_held(following: FollowedSession, now: int, step: Step[Event]) -> None:
    """Pass on the held events, up to the first one that must wait for a further answer."""
    if following.input.waits:
        return
    for burst, event in following.held.take_all():
        if not following.hold_event(burst, event, now):  # the next run waits for its own input
            _pass_on(following, [(burst, event)], now, step)
    if following.held_severed:
        following.reconnected(now)
