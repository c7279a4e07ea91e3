"""The sessions of a backend that carries many over one connection: made as it lists and names them, and gone with it.

What clients ask before the backend has said which sessions it has waits for that, in its order and not for long; also
after a lost connection, for another backend may answer then, with other sessions.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from dragoman.gateway.backends.asking import Asking, Script, TimedOut
from dragoman.gateway.routing.ids import canonical_id
from dragoman.gateway.routing.roster import Roster
from dragoman.gateway.routing.shared import Shared
from dragoman.gateway.services import Services
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.events import SessionsListed
from dragoman.mappings.canonical.values import Ext, SessionSummary
from dragoman.mappings.dialect import Dialect

__all__ = ["SharedSessions"]

HELD_MAX = 1024  # what waits for the first list: a route's clients after a restart


class SharedSessions:
    """Finds and makes them: a Keeper.

    `make` makes a session that the backend has, by its canonical id and the backend's ids; `gone` is told of one that
    it does not have any more, `news` of what happens in none, `appeared` of the first word of new ones.
    """

    def __init__(
        self, route: str, dialect: Dialect, roster: Roster, make: Callable[[str, Ext | None], Session],
        gone: Callable[[Session], None], news: Callable[[Event], None], appeared: Callable[[], None],
        services: Services,
    ) -> None:  # fmt: skip
        self._route = route
        self._dialect = dialect
        self._roster = roster
        self._make = make
        self.gone, self.news, self.appeared = gone, news, appeared
        self._wait = services.limits.snapshot_wait
        self._asking: Asking[Callable[[], None]] = Asking(
            lambda _command: None, _run_all, lambda _held, _failure: None, bound=HELD_MAX,
            new_id=services.new_id, later=services.schedule,
        )  # fmt: skip
        self._known = False
        self.shared = Shared(route, dialect, self, services)

    def known(self, name: str) -> Session | None:
        """The session that the backend calls `name`, if anybody spoke of it yet."""
        return self._roster.named(name)

    def find(self, name: str) -> Session:
        """The session that the backend calls `name`."""
        known = self.known(name)
        if known is not None:
            return known
        ids = self._dialect.named(name) if self._dialect.named is not None else None
        return self._make(canonical_id(self._route, name), ids)

    def newest(self) -> Session | None:
        """Return the backend's session in which something happened last.

        A pando's sub-agents and titles have sessions of their own, with ids that are no UUIDs: any other comes first.
        """
        own = [session for session in self._roster if session.state.backend_ids is not None]
        return max(own, key=lambda session: (self._has_uuid(session), session.state.updated_at), default=None)

    def _has_uuid(self, session: Session) -> bool:
        state = session.state
        return state.id in self._dialect.shown(state.id, state.backend_ids)

    def when_known(self, action: Callable[[], None]) -> bool:
        """Do it once the backend has told its sessions, or does not; False if too much waits for that already."""
        if self._known:
            action()
            return True
        self.shared.upstream.start()
        if not self._asking.active:
            self._asking.begin(self._learn(), self._wait)
        return not self._asking.hold([action])

    def _learn(self) -> Script:
        """Wait until the backend has told its sessions, but not for long: its connection asks for them by itself."""
        with suppress(TimedOut):
            yield None
        self._known = True

    def close(self) -> None:
        """The gateway ends."""
        self._asking.stop()
        self.shared.upstream.stop()

    # -- what the connection tells -------------------------------------------------------------------------

    def described(self, session: Session, row: SessionSummary) -> None:
        """The backend says this of a session."""
        state = session.state
        state.listed = row
        state.title = row.title or state.title
        state.updated_at = max(state.updated_at, row.updated_at)

    def listed(self, event: SessionsListed) -> None:
        """The backend has these sessions, and may have others that it does not list
        (docs/dialects/pando.md, section 6).
        """
        found = set()
        for row in event.sessions:
            session = self.find(row.session)
            self.described(session, row)
            found.add(session.state.id)
        self.appeared()
        self.shared.doubt([s for s in self._roster if s.state.id not in found and s.state.backend_ids is not None])

    def certain(self) -> None:
        """What waited for the sessions goes on."""
        self._known = True
        self._asking.answer(None)

    def unsure(self) -> None:
        """The connection is lost."""
        self._known = False


def _run_all(actions: list[Callable[[], None]]) -> None:
    for action in actions:
        action()
