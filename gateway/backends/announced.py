"""The sessions that a backend told of by itself, and that no client has used since.

A backend may tell of ever more sessions. So there are at most ANNOUNCED_MAX of them: with one more, the first is
forgotten. Its row stays in lists, and it is made again with the next event or client that names it.
"""

from __future__ import annotations

from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical.values import Failure

ANNOUNCED_MAX = 1024  # sessions: together they count as 16 MiB in `memory`
TOO_MANY = Failure(cause="busy", text=f"the backend told of more than {ANNOUNCED_MAX:,} further sessions")


class AnnouncedSessions:
    """The announced sessions of one route, the first one first; some of them may have clients by now."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self.closed = False
        """True once no further session may be announced."""

    def add_session(self, session: Session) -> None:
        """Add a new session. If there are too many, remove the first one, and forget it if nobody uses it."""
        self._sessions[session.state.id] = session
        if len(self._sessions) > ANNOUNCED_MAX:
            first = self._sessions.pop(next(iter(self._sessions)))
            if first.presence.unused:
                first.give_up(TOO_MANY)
                first.presence.rest(TOO_MANY.text)

    def remove_session(self, session: Session) -> None:
        self._sessions.pop(session.state.id, None)

    def close(self) -> None:
        """Announce no further session: the end of the connection releases events of up to 2,048 of them."""
        self.closed = True
