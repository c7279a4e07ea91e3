"""One connection to a backend that carries many sessions (docs/design.md, section 5: pando).

What the backend says goes to the session that it names, what answers a command to the session that asked. A session
that nobody knows yet is made. Lists bring what sessions there are; they come when the connection stands, and anew when
another instance answers than before. A list does not have every session (docs/dialects/pando.md, section 6): one that
it lacks is asked for by itself before it counts as gone.

A shipped pando takes no input from others. Whoever types where the backend has no session yet would leave an empty one
in its database. So the backend is first asked to interrupt the session that it does not have: if it cannot interrupt at
all, the words are refused and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import structlog
from msgspec import structs

from dragoman.gateway.backends.asking import Asking, Refused, Script
from dragoman.gateway.backends.upstream import Upstream
from dragoman.gateway.services import Services
from dragoman.gateway.session.ports import Backend, BackendEvents
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical import Command, Event, SessionState
from dragoman.mappings.canonical.commands import CancelTurn, GetSession, OpenSession, ResumeSession, SubmitInput
from dragoman.mappings.canonical.events import (
    Heartbeat,
    HistorySnapshot,
    Reply,
    SessionClosed,
    SessionOpened,
    SessionsListed,
    SessionUpdated,
    StoreChanged,
)
from dragoman.mappings.canonical.values import Cause, Failure, SessionSummary
from dragoman.mappings.dialect import Burst, Dialect, Loss
from dragoman.mappings.errors import ConfigError

__all__ = ["SharedBackend", "SharedConnection", "SharedListener"]

HELD_MAX = 1024  # commands that wait until their session is open: each has a deadline of its own
ASKED_MAX = 4096  # commands without an answer of all sessions: each session bounds its own

MAKES_NONE = (HistorySnapshot, SessionClosed)
"""What is said only of sessions that we asked for, or that are over: it makes none."""

log = structlog.get_logger("dragoman.shared")


class SharedListener(Protocol):
    """What hears of the sessions of a shared connection, and keeps them."""

    def known_session(self, name: str) -> Session | None:
        """Return the session that the backend calls so, if there is one."""

    def find_or_make(self, name: str) -> Session:
        """Return the session that the backend calls so, made if nobody knows it yet."""

    def described(self, session: Session, row: SessionSummary) -> None:
        """The backend describes a session."""

    def on_list(self, event: SessionsListed) -> None:
        """The backend told which sessions it has."""

    def news(self, event: Event) -> None:
        """Something happened that belongs to no session."""

    def certain(self) -> None:
        """Of every session in doubt it is known now whether the backend has it."""

    def unsure(self) -> None:
        """Who answers next may have other sessions."""

    def appeared(self) -> None:
        """The backend spoke of a session that nobody knew."""

    def gone(self, session: Session) -> None:
        """The backend does not have this session any more."""


class SharedConnection:
    """The connection of one route, which `connect` makes."""

    def __init__(
        self,
        route: str,
        dialect: Dialect,
        keeper: SharedListener,
        services: Services,
        connect: Callable[[BackendEvents], Backend],
    ) -> None:
        self._state = SessionState(id=route)  # the connection is about no session of its own
        self.dialect = dialect
        self._keeper = keeper
        self.services = services
        self._ways: dict[str, SharedBackend] = {}  # the sessions that are watched, by their canonical id
        self._asked: dict[str, Session] = {}
        self._opening: dict[str, SharedBackend] = {}  # who asks for a session to be opened, by our request
        self._doubted: dict[str, Session] = {}  # of which it is asked whether it has them, by our request
        self._heard = False  # this connection told which sessions there are
        upstream = connect(self)
        if not isinstance(upstream, Upstream):
            raise ConfigError(f"route {route}: a backend of many sessions must be dialled, not played")
        self.upstream = upstream

    def backend_for(self, session: Session) -> SharedBackend:
        """Return the connection as one session sees it."""
        return SharedBackend(self, session)

    # -- for the ways ----------------------------------------------------------------------------------

    def watch(self, way: SharedBackend) -> None:
        """Somebody looks at this session: have its history."""
        state = way.session.state
        if state.id not in self._ways:
            self._ways[state.id] = way
            self.upstream.attach(state)

    def forget(self, way: SharedBackend) -> None:
        """Nobody looks at it any more."""
        self._ways.pop(way.session.state.id, None)

    def ask(self, way: SharedBackend, command: Command) -> None:
        """Ask something before the commands of a session; the answer goes to `way`."""
        self._opening[command.request] = way
        self.upstream.send([command])

    def send(self, session: Session, commands: Sequence[Command]) -> None:
        """Write a session's commands, each naming it as the backend does."""
        named = [self._naming(session, command) for command in commands]
        for command in named:
            if command.request and len(self._asked) < ASKED_MAX:
                self._asked[command.request] = session
        self.upstream.send(named)

    def doubt(self, sessions: Sequence[Session]) -> None:
        """Ask for each of these whether the backend has it."""
        requests = {self.services.new_id(): session for session in sessions}
        self._doubted |= requests
        self.upstream.send([self._naming(session, GetSession(request=r)) for r, session in requests.items()])
        if not self._doubted:
            self._keeper.certain()

    def _naming(self, session: Session, command: Command) -> Command:
        """A command that names the session as the backend does."""
        if session.state.backend_ids is None and isinstance(command, GetSession | ResumeSession):
            return command  # nobody knows it yet but who asks for it
        (name, *_) = self.dialect.public_ids(session.state.id, session.state.ids)
        return structs.replace(command, session=name)

    # -- what the backend says ---------------------------------------------------------------------------

    def connected(self) -> SessionState:
        """The connection stands: every session that somebody looks at is asked for anew."""
        for way in list(self._ways.values()):
            self.upstream.attach(way.session.state)
        return self._state

    def receive(self, bursts: list[Burst[Event]]) -> None:
        """The backend said this, of whatever session."""
        for burst in bursts:
            asked = self._asked.pop(burst.request, None) if burst.request else None
            opening = self._opening.pop(burst.request, None) if burst.request else None
            doubted = self._doubted.pop(burst.request, None) if burst.request else None
            if opening is not None:
                opening.session.delivery.enter()
                opening.asking.answer(burst)
            elif asked is not None:
                asked.delivery.enter()
                asked.receive([burst])
            elif doubted is not None:
                self._checked(doubted, burst)
            elif burst.session:
                self._told(burst)
            else:
                for item in burst.items:
                    self._take(item)

    def _told(self, burst: Burst[Event]) -> None:
        """What happens in one session."""
        known = self._keeper.known_session(burst.session)
        if known is None and all(isinstance(item, MAKES_NONE) for item in burst.items):
            losses = [Loss(kind=type(item).__name__, why="of a session that is over") for item in burst.items]
            self.services.ledger.record(losses)
            return
        session = known or self._keeper.find_or_make(burst.session)
        session.delivery.enter()
        session.receive([burst])
        for item in burst.items:
            if isinstance(item, SessionUpdated):
                self._keeper.described(session, item.session)
            elif isinstance(item, SessionClosed):
                self._keeper.gone(session)
        if known is None:
            self._keeper.appeared()

    def _checked(self, session: Session, answer: Burst[Event]) -> None:
        """The answer of a backend that was asked whether it has this session."""
        failures = [item.failure for item in answer.items if isinstance(item, Reply)]
        if any(failure is not None and failure.cause == "not_found" for failure in failures):
            session.delivery.enter()
            session.describe(SessionClosed)
            self._keeper.gone(session)
        if not self._doubted:
            self._keeper.certain()

    def _take(self, item: Any) -> None:
        if isinstance(item, SessionsListed):
            self._heard = True
            self._keeper.on_list(item)
        elif isinstance(item, StoreChanged):
            self._keeper.news(item)
        elif not isinstance(item, Heartbeat):  # the connection watches for those, and our own clients get ours
            self.services.ledger.record([Loss(kind=type(item).__name__, why="of the backend, and of no session")])

    def lost(self, text: str, unsent: Sequence[Command], cause: Cause = "upstream_lost") -> bool:
        """The backend cannot be reached: each session hears of it, and of what of its own was not written."""
        self._doubted.clear()
        if self._heard:  # not each time that it cannot be reached again
            self._heard = False
            self._keeper.unsure()
        opening, self._opening = [*self._opening.values()], {}
        own: dict[str, list[Command]] = {way.session.state.id: way.asking.lost([])[1] for way in opening}
        for command in unsent:
            session = self._asked.get(command.request)
            if session is not None:
                own.setdefault(session.state.id, []).append(command)
        sessions = {
            s.state.id: s for s in (*self._asked.values(), *(way.session for way in (*opening, *self._ways.values())))
        }
        self._asked.clear()
        found = [session for session in sessions.values() if session.lost(text, own.get(session.state.id, []), cause)]
        return bool(found)


class SharedBackend:
    """One session's part of the connection: a Backend."""

    def __init__(self, shared: SharedConnection, session: Session) -> None:
        self._shared = shared
        self.session = session
        self.asking: Asking[Command] = Asking(
            lambda command: shared.ask(self, command),
            lambda held: shared.send(session, held),
            self._refuse,
            services=shared.services,
            bound=HELD_MAX,
        )

    def start(self) -> None:
        self._shared.upstream.start()
        self._shared.watch(self)

    def send(self, commands: Sequence[Command]) -> None:
        """Write commands. Where the backend has no session yet the first words open one, and the rest waits."""
        opens = self.session.state.backend_ids is None and any(isinstance(c, SubmitInput) for c in commands)
        if self.asking.active or opens:
            if excess := self.asking.hold(commands):
                self.session.lost("too many commands wait for the session to be opened", excess, "busy")
            if not self.asking.active:
                self.asking.begin(self._open())
            return
        if not all(isinstance(command, OpenSession) for command in commands):
            self._shared.watch(self)
        self._shared.send(self.session, commands)

    def _open(self) -> Script:
        """Have the backend open a session that it does not have yet, provided that it takes input at all."""
        state = self.session.state
        answer = yield CancelTurn(session=state.id)
        failures = [item.failure for item in answer.items if isinstance(item, Reply) and item.failure is not None]
        if failures and failures[0].cause in ("unsupported", "denied"):  # none that takes input refuses to stop it
            text = f"this {self._shared.dialect.name} takes no input from other programs ({failures[0].text})"
            raise Refused(Failure(cause="unsupported", text=text))
        answer = yield OpenSession(session=state.id, title=state.title)
        opened = next((item for item in answer.items if isinstance(item, SessionOpened)), None)
        if opened is None:
            failure = next((item.failure for item in answer.items if isinstance(item, Reply)), None)
            raise Refused(failure or Failure(cause="internal", text="the backend did not say what it opened"))
        self.session.receive([structs.replace(answer, items=[structs.replace(opened, request="")])])
        self._shared.upstream.attach(state)

    def _refuse(self, held: list[Command], failure: Failure) -> None:
        self.session.receive([Burst(items=[Reply(request=command.request, failure=failure) for command in held])])

    def rest(self) -> None:
        self._shared.forget(self)

    def stop(self) -> None:
        self.asking.stop()
        self._shared.forget(self)
