"""The sessions of a backend that carries many over one connection. Its lists and events make and end them.

Until the backend has listed its sessions, commands of clients wait in their order, for a short time. They wait again
after a lost connection, because another backend with other sessions may answer then.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from dragoman.gateway.backends.asking import Asking, Script, TimedOut
from dragoman.gateway.backends.kind import MakeBackend, SessionOpener
from dragoman.gateway.backends.shared import SharedBackend, SharedConnection
from dragoman.gateway.ingress import LATEST, NEW
from dragoman.gateway.link import Link
from dragoman.gateway.routing.ids import canonical_id
from dragoman.gateway.routing.sessions import Sessions
from dragoman.gateway.session.ports import Backend
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.canonical.commands import DeleteSession
from dragoman.mappings.canonical.events import SessionsListed
from dragoman.mappings.canonical.values import Ext, Failure, SessionSummary

__all__ = ["SharedKind"]

HELD_MAX = 1024  # actions that wait for the first list: those of a route's clients after a restart
GONE = Failure(cause="upstream_lost", text="the backend does not have this session any more")


class SharedKind(SessionOpener):
    """One connection that carries all sessions of a route, and their keeper (SharedListener)."""

    def __init__(self, sessions: Sessions, make_backend: MakeBackend) -> None:
        super().__init__(sessions, make_backend)
        self._dialect = sessions.upstream
        self._asking: Asking[Callable[[], None]] = Asking(
            lambda _command: None, _run_all, lambda _held, _failure: None, services=self._services, bound=HELD_MAX
        )
        self._known = False
        self._made_up: set[str] = set()  # sessions for a listener whose backend had none
        self._shared = SharedConnection(
            sessions.route.name, self._dialect, self, self._services, self._connect_upstream
        )

    # -- what the router asks ------------------------------------------------------------------------------

    def subscribed(self) -> None:
        self._shared.upstream.start()

    def worth_listing(self, rows: list[SessionSummary]) -> list[SessionSummary]:
        """Return the rows of sessions that have a message, because every session there has a title."""
        return [row for row in rows if row.messages]

    def control(self) -> Session | None:
        """Return None: a pando has no handler for commands without a session (docs/dialects/pando.md, section 6)."""
        return None

    def session_behind(self, wanted: str) -> Session | None:
        known = self._sessions.index.find_session(wanted)
        if known is not None:
            return known
        if wanted not in ("", LATEST):
            named = wanted != NEW
            return self._make(canonical_id(self._sessions.route.name, wanted) if named else self._services.new_id())
        newest = self._newest()
        if newest is not None:
            return newest
        made_up = self._services.new_id()
        self._made_up.add(made_up)
        return self._make(made_up)

    def _new_session(self, link: Link, name: str) -> Session:
        """Return a session under the id that the client asks for, because the backend opens it under that id."""
        session = self._make(canonical_id(self._sessions.route.name, name) if name else self._services.new_id())
        self._sessions.claim(link, session)
        return session

    def _make(self, id: str, ids: Ext | None = None) -> Session:
        def connect(session: Session) -> Backend:
            if ids is None:
                session.pending.open()  # a new conversation has no history to wait for
            return SharedBackend(self._shared, session)

        return self._sessions.make(id, connect, ids=ids)

    def _newest(self) -> Session | None:
        """Return the backend's session with the latest event.

        A session without a UUID comes last: a pando has such sessions for sub-agents and titles.
        """
        own = [session for session in self._sessions.index if session.state.backend_ids is not None]
        return max(own, key=lambda session: (self._has_uuid(session), session.state.updated_at), default=None)

    def _has_uuid(self, session: Session) -> bool:
        state = session.state
        return state.id in self._dialect.public_ids(state.id, state.backend_ids)

    def when_known(self, _link: Link, _command: Command | None, action: Callable[[], None]) -> bool:
        if self._known:
            action()
            return True
        self._shared.upstream.start()
        if not self._asking.active:
            self._asking.begin(self._learn(), self._services.limits.snapshot_wait)
        return not self._asking.hold([action])

    def _learn(self) -> Script:
        """Wait for a short time until the backend has listed its sessions, for which its connection asks by itself."""
        with suppress(TimedOut):
            yield None
        self._known = True

    def close(self) -> None:
        self._asking.stop()
        self._shared.upstream.stop()

    # -- what the connection tells -------------------------------------------------------------------------

    def known_session(self, name: str) -> Session | None:
        return self._sessions.index.find_session(name)

    def find_or_make(self, name: str) -> Session:
        known = self.known_session(name)
        if known is not None:
            return known
        ids = self._dialect.session_ref(name) if self._dialect.session_ref is not None else None
        return self._make(canonical_id(self._sessions.route.name, name), ids)

    def news(self, event: Event) -> None:
        self._sessions.publish_event(event)

    def appeared(self) -> None:
        """Show the newest session to listeners for which the backend had none."""
        newest = self._newest()
        if newest is None:
            return
        for session in self._sessions.entered:
            unused = session.state.backend_ids is None and not session.in_flight
            seen = all(self._sessions.policy.sees(link.principal, newest.state) for link in session.presence.links)
            if session.state.id in self._made_up and unused and seen:
                self._sessions.move_on(session)
        self._made_up &= {session.state.id for session in self._sessions.index}

    def gone(self, session: Session) -> None:
        """End a session. Show clients that name none the session that is behind their listener now."""
        if session in self._sessions.index:
            session.commands.give_all(DeleteSession)
            session.give_up(GONE)
            self._sessions.move_on(session)

    def described(self, session: Session, row: SessionSummary) -> None:
        state = session.state
        state.listed = row
        state.title = row.title or state.title
        state.updated_at = max(state.updated_at, row.updated_at)

    def on_list(self, event: SessionsListed) -> None:
        """Make the listed sessions, and ask for those that the list lacks (docs/dialects/pando.md, section 6)."""
        found = set()
        for row in event.sessions:
            session = self.find_or_make(row.session)
            self.described(session, row)
            found.add(session.state.id)
        self.appeared()
        known = [session for session in self._sessions.index if session.state.backend_ids is not None]
        self._shared.doubt([session for session in known if session.state.id not in found])

    def certain(self) -> None:
        self._known = True
        self._asking.answer(None)

    def unsure(self) -> None:
        self._known = False


def _run_all(actions: list[Callable[[], None]]) -> None:
    for action in actions:
        action()
