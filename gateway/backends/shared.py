"""One connection to a backend that carries many sessions (docs/design.md, section 5: pando).

An answer goes to the session that asked, and an event to the session that it names; an unknown session is made. The
backend lists its sessions when the connection stands, and again when another instance answers. A list may lack
sessions (docs/dialects/pando.md, section 6), so the backend is asked for each missing one before it counts as gone.

A shipped pando takes no input from other programs, and opening a session there would leave an empty one in its
database. So before input opens a session, the backend is asked to interrupt that session. If it cannot interrupt at
all, the input is refused and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from msgspec import Struct, structs

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

ASKED_MAX = 4096  # requests of all sessions without an answer: each session bounds its own

MAKES_NO_SESSION = (HistorySnapshot, SessionClosed)
"""Events about sessions that were asked for, or are over."""


class SharedListener(Protocol):
    """The keeper of the sessions of a shared connection."""

    def known_session(self, name: str) -> Session | None:
        """Return the session that the backend calls `name`, if there is one."""

    def find_or_make(self, name: str) -> Session:
        """Return the session that the backend calls `name`; make it if it is unknown."""

    def described(self, session: Session, row: SessionSummary) -> None:
        """Take over the backend's description of a session."""

    def on_list(self, event: SessionsListed) -> None:
        """Take over the list of the backend's sessions."""

    def news(self, event: Event) -> None:
        """Publish an event that belongs to no session."""

    def certain(self) -> None:
        """Note that every doubted session is known to exist or to be gone."""

    def unsure(self) -> None:
        """Note that the backend that answers next may have other sessions."""

    def appeared(self) -> None:
        """Note that the backend named a session that was unknown."""

    def gone(self, session: Session) -> None:
        """End a session that the backend does not have any more."""


class SharedRequest(Struct, frozen=True, kw_only=True):
    """A request that waits for its answer. `session` is told if the connection is lost, None if it need not be."""

    answer: Callable[[Burst[Event]], None]
    session: Session | None = None
    backend: SharedBackend | None = None


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
        self._watched: dict[str, SharedBackend] = {}  # by the canonical id of their session
        self._requests: dict[str, SharedRequest] = {}
        self._doubts = 0  # sessions of which it is not known whether the backend has them
        self._listed = False  # this connection has listed the backend's sessions
        upstream = connect(self)
        if not isinstance(upstream, Upstream):
            raise ConfigError(f"route {route}: a backend of many sessions must be dialled, not played")
        self.upstream = upstream

    # -- from the sessions -----------------------------------------------------------------------------

    def watch(self, backend: SharedBackend) -> None:
        """Ask for the history of a session, now and over each new connection."""
        state = backend.session.state
        if state.id not in self._watched:
            self._watched[state.id] = backend
            self.upstream.attach(state)

    def forget(self, backend: SharedBackend) -> None:
        """Stop watching a session that nobody uses."""
        self._watched.pop(backend.session.state.id, None)

    def ask(self, backend: SharedBackend, command: Command) -> None:
        """Send a request of a script; its answer goes to the script."""
        session = backend.session
        self._requests[command.request] = SharedRequest(answer=backend.asking.answer, session=session, backend=backend)
        self.upstream.send([command])

    def send(self, session: Session, commands: Sequence[Command]) -> None:
        """Write a session's commands, under the name that the backend has for the session."""
        named = [self._with_name(session, command) for command in commands]
        for command in named:
            if command.request and len(self._requests) < ASKED_MAX:
                answer = partial(_receive, session)
                self._requests[command.request] = SharedRequest(answer=answer, session=session)
        self.upstream.send(named)

    def doubt(self, sessions: Sequence[Session]) -> None:
        """Ask whether the backend has these sessions."""
        commands = []
        for session in sessions:
            command = GetSession(request=self.services.new_id())
            self._requests[command.request] = SharedRequest(answer=partial(self._check, session))
            commands.append(self._with_name(session, command))
        self._doubts += len(commands)
        self.upstream.send(commands)
        if not self._doubts:
            self._keeper.certain()

    def _with_name(self, session: Session, command: Command) -> Command:
        if session.state.backend_ids is None and isinstance(command, GetSession | ResumeSession):
            return command  # it names a session that only the backend may know
        (name, *_) = self.dialect.public_ids(session.state.id, session.state.ids)
        return structs.replace(command, session=name)

    # -- from the backend --------------------------------------------------------------------------------

    def connected(self) -> SessionState:
        """Ask for every watched session again."""
        for backend in list(self._watched.values()):
            self.upstream.attach(backend.session.state)
        return self._state

    def receive(self, bursts: list[Burst[Event]]) -> None:
        """Bring each answer to the session that asked, and each event to the session that it names."""
        for burst in bursts:
            request = self._requests.pop(burst.request, None) if burst.request else None
            if request is not None:
                if request.session is not None:
                    request.session.delivery.enter()
                request.answer(burst)
            elif burst.session:
                self._receive_events(burst)
            else:
                for item in burst.items:
                    self._receive_unaddressed(item)

    def _receive_events(self, burst: Burst[Event]) -> None:
        """Bring events to the session that they name; make the session if it is unknown."""
        known = self._keeper.known_session(burst.session)
        if known is None and all(isinstance(item, MAKES_NO_SESSION) for item in burst.items):
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

    def _check(self, session: Session, answer: Burst[Event]) -> None:
        """End a doubted session if the backend does not know it."""
        self._doubts -= 1
        failures = [item.failure for item in answer.items if isinstance(item, Reply)]
        if any(failure is not None and failure.cause == "not_found" for failure in failures):
            session.delivery.enter()
            session.describe(SessionClosed)
            self._keeper.gone(session)
        if not self._doubts:
            self._keeper.certain()

    def _receive_unaddressed(self, item: Any) -> None:
        if isinstance(item, SessionsListed):
            self._listed = True
            self._keeper.on_list(item)
        elif isinstance(item, StoreChanged):
            self._keeper.news(item)
        elif not isinstance(item, Heartbeat):  # the translator watches for those, and our own clients get ours
            self.services.ledger.record([Loss(kind=type(item).__name__, why="of the backend, and of no session")])

    def lost(self, text: str, unsent: Sequence[Command], cause: Cause = "upstream_lost") -> bool:
        """Tell each session that watches or asked, with its own unsent commands."""
        if self._listed:  # once for each connection, not for each attempt
            self._listed = False
            self._keeper.unsure()
        requests, self._requests, self._doubts = self._requests, {}, 0
        own: dict[str, list[Command]] = {}
        for request in requests.values():
            if request.backend is not None:
                own[request.backend.session.state.id] = request.backend.asking.lost([])[1]
        for command in unsent:
            asked = requests.get(command.request)
            if asked is not None and asked.session is not None and asked.backend is None:
                own.setdefault(asked.session.state.id, []).append(command)
        told = [request.session for request in requests.values() if request.session is not None]
        told += [backend.session for backend in self._watched.values()]
        sessions = {session.state.id: session for session in told}
        found = [session for session in sessions.values() if session.lost(text, own.get(session.state.id, []), cause)]
        return bool(found)


def _receive(session: Session, burst: Burst[Event]) -> None:
    session.receive([burst])


class SharedBackend:
    """The backend of one session: its part of the connection."""

    def __init__(self, shared: SharedConnection, session: Session) -> None:
        self._shared = shared
        self.session = session
        self.asking: Asking[Command] = Asking(
            lambda command: shared.ask(self, command),
            lambda held: shared.send(session, held),
            self._refuse,
            services=shared.services,
        )

    def start(self) -> None:
        self._shared.upstream.start()
        self._shared.watch(self)

    def send(self, commands: Sequence[Command]) -> None:
        """Write commands. If the backend has no session yet, the first input opens it and the commands wait."""
        opens = self.session.state.backend_ids is None and any(isinstance(c, SubmitInput) for c in commands)
        if self.asking.active or opens:
            if excess := self.asking.hold(commands):
                self.session.lost("too many commands wait for the backend", excess, "busy")
            if not self.asking.active:
                self.asking.begin(self._open())
            return
        if not all(isinstance(command, OpenSession) for command in commands):
            self._shared.watch(self)
        self._shared.send(self.session, commands)

    def _open(self) -> Script:
        """Open the session at the backend, provided that the backend takes input."""
        state = self.session.state
        answer = yield CancelTurn(session=state.id)
        failures = [item.failure for item in answer.items if isinstance(item, Reply) and item.failure is not None]
        if failures and failures[0].cause in ("unsupported", "denied"):  # a backend that takes input can interrupt
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
