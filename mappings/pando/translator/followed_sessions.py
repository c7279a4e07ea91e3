"""Decide which sessions of a primary are followed, and which of them are checked and asked for next.

Each publication about a session is passed to the session's state (followed_session.py), and the events that follow from
it are added to a step.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from itertools import islice

from dragoman.mappings.canonical import Command, Event, commands, events
from dragoman.mappings.canonical.values import Message, flatten
from dragoman.mappings.dialect import Burst, Loss, Step, TextSink
from dragoman.mappings.pando.translator.followed_session import FollowedSession
from dragoman.mappings.pando.translator.followed_turn import Turn
from dragoman.mappings.pando.translator.output import LatestCall
from dragoman.mappings.pando.wire.topics import LlmToken
from dragoman.mappings.pando.wire.values import nanoseconds

FOLLOWED_MAX = 2_048
"""Sessions of one primary that are followed without a client; past the limit the oldest is removed.

That is twice what the gateway holds of them (gateway/backends/unused.py). Only sessions that are not at rest are
checked once a second. If all of them have an open turn, that takes 0.1 s of CPU, in parts.
"""
OLDEST = 8  # sessions among which the removed one has no open turn, if possible


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
                self._remove(next((s for s in oldest if not self[s].turn.is_open), oldest[0]))
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
        if following is None or following.held or not following.turn.streams(now):
            return False
        if not add_text(token.token, at, token.session_id):
            return False
        following.turn.add_text(token.token, now)
        return True

    def add_pieces(self, session: str, pieces: Sequence[events.TextDelta], now: int) -> bool:
        """Note pieces that only append to the open text; return False if `take_event` must take them one by one."""
        following = self.get(session)
        if following is None or following.held or not following.turn.streams(now):
            return False
        following.turn.add_text("".join(piece.text for piece in pieces), now)
        return True

    def lose_turns(self) -> None:
        """Mark all open turns as lost with their primary: each ends with its session's next event or check of time."""
        self._latest_call.is_hidden = False
        for following in self.values():
            following.turn.lose()

    def current(self, session: str, step: Step[Event]) -> FollowedSession:
        """Return the state of a session like `follow`, after the end of a turn that was lost."""
        following = self.follow(session)
        if following.turn.state is Turn.LOST:
            step.bursts.append(Burst(items=following.turn.end_lost(), session=session))
        return following

    def forget(self, session: str) -> None:
        """Stop following a session; one with an open turn stays until the limit removes it."""
        following = self.get(session)
        if following is not None and not (following.turn.is_open or following.input.waits):
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
            following.note_reconnected(now)

    def touch_active(self, most: int) -> list[tuple[str, FollowedSession]]:
        """Return at most `most` further sessions that are not at rest, and mark them for the next `take_wanting`.

        After all of them (`all_checked`) it starts again.
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
        """Return at most `most` further sessions whose messages must be requested, and mark them as requested.

        Only sessions that were followed or touched since their last check are checked.
        """
        wanting: list[str] = []
        while self._touched and len(wanting) < most:
            session, _ = self._touched.popitem(last=False)
            if session in self and self[session].list_call.begin():
                wanting.append(session)
        return wanting

    # -- what the primary tells of a session: events that are added to a step ----------------------------

    def take_event(self, burst: Burst[Event], event: Event, now: int, step: Step[Event]) -> list[Event]:
        """Return the canonical events for a publication that was received at `now` (ns); none if it is held."""
        following = self.current(burst.session, step)
        if isinstance(event, events.SessionClosed):
            following.input.stop_learning()
            following.release_held(now, step)
        if following.hold_event(burst, event, now):
            return []
        following.pass_on(following.held.take_all(), now, step)  # no further event may be held
        return following.take_event(event, now, step)

    def begin_turn(self, session: str, input: str, now: int, step: Step[Event]) -> None:
        """Begin the turn of our accepted input, after the runs of others whose events came before it was sent."""
        following = self.current(session, step)
        earlier = following.held.take_runs(following.input.held)
        following.pass_on(earlier, now, step)
        if earlier:
            step.bursts.append(Burst(items=following.take_list(None, now), session=session))
        following.turn.begin(now, input)

    def note_answer(self, session: str, now: int, step: Step[Event]) -> None:
        """Pass on the events that were held until the answer to an input."""
        following = self.current(session, step)
        following.note_answer(now)
        following.release_held(now, step)

    def take_list(self, session: str, messages: Sequence[Message] | None, now: int, step: Step[Event]) -> None:
        """Add what follows from the result of message.list; `messages` is None if the call failed."""
        following = self.current(session, step)
        before = following.turn.guesses
        items = following.take_list(messages, now)
        if messages is not None and any(isinstance(item, events.Gap) for item in items):
            items.append(following.history(messages))  # the store is authoritative
        if items:
            step.bursts.append(Burst(items=items, session=session))
        if following.turn.guesses > before:
            step.losses.append(Loss(kind="TurnEnded", why="the end was inferred from message.list"))
        following.release_held(now, step)

    def take_history(self, session: str, messages: Sequence[Message] | None, now: int, step: Step[Event]) -> None:
        """Add the history of a session; `messages` is None if the call failed."""
        following = self.current(session, step)
        if messages is not None:
            step.bursts.append(Burst(items=[following.history(messages)], session=session))
            if following.held and following.input.is_asked_for and not following.turn.is_open:
                self.take_list(session, messages, now, step)  # the input of the held run
        following.release_held(now, step)

    def check_times(self, most: int, now: int, step: Step[Event]) -> None:
        """End the deadlines that have passed at `now` (ns), in at most `most` further sessions."""
        for session, following in self.touch_active(most):
            if items := following.turn.check_time(now):
                step.bursts.append(Burst(items=items, session=session))
            following.release_held(now, step)

    def note_lost(self, command: commands.SubmitInput, now: int, step: Step[Event]) -> None:
        """Forget an input whose answer was lost, which its client was told.

        If the input runs, it counts as another client's.
        """
        self.note_refusal(command)
        self.note_answer(command.session, now, step)

    def note_refusal(self, command: Command) -> None:
        """Undo the state that a sent command set, because the primary refused the command."""
        following = self.get(command.session)
        if following is not None and isinstance(command, commands.CancelTurn):
            following.turn.interrupt.forget()
        elif following is not None and isinstance(command, commands.SubmitInput):
            following.known.forget_input(flatten(command.segments))
