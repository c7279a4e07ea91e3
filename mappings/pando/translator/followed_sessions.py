"""The sessions of one primary that this link follows, by the primary's own ids."""

from __future__ import annotations

from collections.abc import ItemsView

from dragoman.mappings.canonical import Event, commands
from dragoman.mappings.canonical.commands import Command
from dragoman.mappings.canonical.values import flatten
from dragoman.mappings.dialect import Burst, TextSink
from dragoman.mappings.pando.translator.followed_session import FollowedSession, Patience
from dragoman.mappings.pando.wire.times import nanoseconds
from dragoman.mappings.pando.wire.topics import LlmToken

FOLLOWED_MAX = 10_000
"""Sessions of one primary that a link follows; past the limit the oldest idle session is removed.

So many idle sessions take 11 MB, a look at all of them 5 to 8 ms once a second, and each further session 4 us.
"""


class FollowedSessions(dict[str, FollowedSession]):
    """The followed sessions of one primary: session id -> state."""

    def __init__(self, patience: Patience) -> None:
        super().__init__()
        self._patience = patience
        self._touched: dict[str, None] = {}  # sessions that may want their messages

    def follow(self, session: str) -> FollowedSession:
        """Return the state of a session, and follow the session if it is new."""
        self._touched[session] = None
        following = self.get(session)
        if following is None:
            if len(self) >= FOLLOWED_MAX:
                idle = next((s for s, f in self.items() if not f.open and not f.watched), None)
                del self[idle if idle is not None else next(iter(self))]
            following = self[session] = FollowedSession(self._patience)
        return following

    def add_text(self, message: LlmToken, now: int, add_text: TextSink) -> bool:
        """Pass a token to the sink and note it; return False if `receive` must read it instead."""
        token, at = message.payload, nanoseconds(message.timestamp) or 0
        following = self.get(token.session_id)
        if following is None or not following.streams or not add_text(token.token, at, token.session_id):
            return False
        following.add_text(token.token, now)
        return True

    def end_lost_turns(self) -> list[Burst[Event]]:
        """End all open turns after the loss of the primary, and return their events."""
        ends = {session: following.end_lost_turn() for session, following in self.items()}
        return [Burst(items=items, session=session) for session, items in ends.items() if items]

    def forget(self, session: str) -> None:
        """Stop following a session; one with an open turn stays until the limit removes it."""
        following = self.get(session)
        if following is not None and not (following.open or following.waits):
            del self[session]
        elif following is not None:
            following.watched = False

    def reconnected(self, now: int) -> None:
        """Mark the sessions with open turns, so that their messages are requested on the new connection."""
        for _, following in self.touch_all():
            following.reconnected(now)

    def touch_all(self) -> ItemsView[str, FollowedSession]:
        """Return all sessions, and mark all for the next `take_wanting`."""
        self._touched = dict.fromkeys(self)
        return self.items()

    def take_wanting(self) -> list[str]:
        """Return the sessions whose messages must be asked for, and mark them as asked.

        Only those are looked at that were followed since the last call, or all after `touch_all`.
        """
        touched, self._touched = self._touched, {}
        wanting = [s for s in touched if s in self and self[s].wants and not self[s].asked]
        for session in wanting:
            self[session].wants, self[session].asked = False, True
        return wanting

    def note_refusal(self, command: Command) -> None:
        """Undo the state that a sent command set, because the primary refused the command."""
        following = self.get(command.session)
        if following is not None and isinstance(command, commands.CancelTurn):
            following.interrupt = None
        elif following is not None and isinstance(command, commands.SubmitInput):
            following.known.forget_input(flatten(command.segments))
