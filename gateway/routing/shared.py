"""One connection to a backend that carries many sessions (design.md, section 5: pando).

What the backend says goes to the session that it names, what answers a command to the session that asked. A session
that nobody knows yet is made. Lists bring what sessions there are; they come when the connection stands, and anew when
another instance answers than before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import structlog
from msgspec import structs

from gateway.ledger import Ledger
from gateway.session.session import Session
from gateway.upstream import Upstream
from mappings.canonical import Command, SessionState
from mappings.canonical.commands import OpenSession, SubmitInput
from mappings.canonical.events import Reply, SessionOpened, SessionsListed
from mappings.dialect import Burst, Dialect, Loss, NewId

__all__ = ["Shared", "Way"]

ASKED_MAX = 4096  # commands without an answer of all sessions: each session bounds its own

log = structlog.get_logger("dragoman.shared")


class Shared:
    """The connection of one route; `upstream` is set before anything is asked.

    `find` gives the session that the backend calls so, and makes it if need be; `listed` hears of each list.
    """

    upstream: Upstream

    def __init__(
        self, route: str, dialect: Dialect, *, find: Callable[[str], Session],
        listed: Callable[[SessionsListed], None], ledger: Ledger, new_id: NewId,
    ) -> None:  # fmt: skip
        self._state = SessionState(id=route)  # the connection is about no session of its own
        self._dialect = dialect
        self._find = find
        self._listed = listed
        self._ledger = ledger
        self._new_id = new_id
        self._ways: dict[str, Way] = {}  # the sessions that are watched, by their canonical id
        self._asked: dict[str, Session] = {}
        self._opening: dict[str, Way] = {}  # sessions that the backend is asked to open, by our request
        self.heard = False
        """Whether the backend told which sessions it has."""

    def way(self, session: Session) -> Way:
        """The way of one session to the backend."""
        return Way(self, session)

    # -- for the ways ----------------------------------------------------------------------------------

    def watch(self, way: Way) -> None:
        """Somebody looks at this session: have its history."""
        state = way.session.state
        if state.id not in self._ways:
            self._ways[state.id] = way
            self.upstream.attach(state)

    def forget(self, way: Way) -> None:
        """Nobody looks at it any more."""
        self._ways.pop(way.session.state.id, None)

    def open(self, way: Way) -> None:
        """Have the backend open a session that it does not have yet."""
        request = self._new_id()
        self._opening[request] = way
        state = way.session.state
        self.upstream.send([OpenSession(request=request, session=state.id, title=state.title)])

    def send(self, session: Session, commands: Sequence[Command]) -> None:
        """Write a session's commands, each naming it as the backend does."""
        (name, *_) = self._dialect.shown(session.state.id, session.state.backend_ids)
        named = [structs.replace(command, session=name) for command in commands]
        for command in named:
            if command.request and len(self._asked) < ASKED_MAX:
                self._asked[command.request] = session
        self.upstream.send(named)

    # -- what the backend says ---------------------------------------------------------------------------

    def connected(self) -> SessionState:
        """The connection stands: every session that somebody looks at is asked for anew."""
        for way in list(self._ways.values()):
            self.upstream.attach(way.session.state)
        return self._state

    def receive(self, bursts: list[Burst]) -> None:
        """The backend said this, of whatever session."""
        for burst in bursts:
            asked = self._asked.pop(burst.request, None) if burst.request else None
            opening = self._opening.pop(burst.request, None) if burst.request else None
            if opening is not None:
                opening.session.delivery.enter()
                opening.opened(burst)
            elif asked is not None:
                asked.delivery.enter()
                asked.receive([burst])
            elif burst.session:
                session = self._find(burst.session)
                session.delivery.enter()
                session.receive([burst])
            else:
                for item in burst.items:
                    self._take(item)

    def _take(self, item: Any) -> None:
        if isinstance(item, SessionsListed):
            self.heard = True
            self._listed(item)
        else:
            self._ledger.record([Loss(kind=type(item).__name__, why="of the backend, and of no session")])

    def lost(self, cause: str, unsent: Sequence[Command]) -> None:
        """The backend cannot be reached: each session hears of it, and of what of its own was not written."""
        opening, self._opening = list(self._opening.values()), {}
        own: dict[str, list[Command]] = {way.session.state.id: way.give_up() for way in opening}
        for command in unsent:
            session = self._asked.get(command.request)
            if session is not None:
                own.setdefault(session.state.id, []).append(command)
        sessions = {
            s.state.id: s for s in (*self._asked.values(), *(way.session for way in (*opening, *self._ways.values())))
        }
        self._asked.clear()
        for session in sessions.values():
            session.lost(cause, own.get(session.state.id, []))


class Way:
    """One session's part of the connection: a Backend."""

    def __init__(self, shared: Shared, session: Session) -> None:
        self._shared = shared
        self.session = session
        self._held: list[Command] = []  # until the backend has opened the session

    def start(self) -> None:
        self._shared.upstream.start()
        self._shared.watch(self)

    def send(self, commands: Sequence[Command]) -> None:
        if self._held or (self.session.state.backend_ids is None and any(isinstance(c, SubmitInput) for c in commands)):
            self._hold(commands)
            return
        if not all(isinstance(command, OpenSession) for command in commands):
            self._shared.watch(self)
        self._shared.send(self.session, commands)

    def _hold(self, commands: Sequence[Command]) -> None:
        """A client came by a door behind which the backend has nothing: its first words open a session there."""
        first = not self._held
        self._held += commands  # bounded by what a session may have under way
        if first:
            self._shared.open(self)

    def opened(self, answer: Burst) -> None:
        """The backend opened the session, or will not."""
        held = self.give_up()
        for item in answer.items:
            if isinstance(item, SessionOpened):
                self.session.receive([structs.replace(answer, items=[structs.replace(item, request="")])])
                self._shared.upstream.attach(self.session.state)
                self._shared.send(self.session, held)
            elif isinstance(item, Reply):
                refusals = [Reply(request=command.request, failure=item.failure) for command in held]
                self.session.receive([structs.replace(answer, items=refusals)])

    def give_up(self) -> list[Command]:
        """What waited."""
        held, self._held = self._held, []
        return held

    def rest(self) -> None:
        self._shared.forget(self)

    def stop(self) -> None:
        self._shared.forget(self)
