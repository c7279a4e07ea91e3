"""One connection to a backend that carries all sessions of a route (docs/design.md, section 5: pando).

An answer goes to the session that asked, and an event to the session that it names, which is created if it is unknown.
The backend lists its sessions once the connection is established, and again when another instance answers. There may be
thousands, so only their rows are kept until a client uses them (unused.py). A list may lack sessions
(docs/dialects/pando.md, section 6), so the backend is asked for each missing one before it counts as gone.

Until the backend has listed its sessions, commands of clients wait in their order, for a short time. They wait again
after a lost connection, because another backend with other sessions may answer then.

A shipped pando takes no input from other programs, and opening a session there would leave an empty one in its
database. So before input opens a session, the backend is asked to interrupt that session. If it cannot interrupt at
all, the input is refused and nothing is written.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from msgspec import Struct, structs

from dragoman.adapters.base import do_nothing
from dragoman.gateway.backends.asking import (
    TOO_MANY_HELD,
    Asking,
    Script,
    failure_in,
    opened_in,
    refusals,
)
from dragoman.gateway.backends.kind import MakeBackend
from dragoman.gateway.backends.unused import AnnouncedSessions, RememberingOpener
from dragoman.gateway.backends.upstream import Upstream
from dragoman.gateway.ingress import LATEST, NEW
from dragoman.gateway.link import Link
from dragoman.gateway.overload.fair_queue import SlicedWork
from dragoman.gateway.routing.ids import canonical_id
from dragoman.gateway.routing.policy import Refused
from dragoman.gateway.routing.sessions import Sessions, replace_session
from dragoman.gateway.services import Services
from dragoman.gateway.session.ports import Backend
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical import Command, Event, SessionState
from dragoman.mappings.canonical.commands import (
    CancelTurn,
    DeleteSession,
    GetSession,
    OpeningCommand,
    OpenSession,
    ResumeSession,
    SubmitInput,
)
from dragoman.mappings.canonical.events import (
    Heartbeat,
    SessionClosed,
    SessionsListed,
    SessionUpdated,
    StoreChanged,
    TextDelta,
)
from dragoman.mappings.canonical.values import Cause, Ext, Failure, SessionSummary
from dragoman.mappings.dialect import Burst, DeltaType, Dialect, Loss, StreamedBlock, TextSink
from dragoman.mappings.errors import ConfigError

LISTED = 4096  # units of work (gateway/overload/fair_queue.py) of a listed row, whose ids are computed: about 40 us
ASKED_MAX = 4096  # requests of all sessions without an answer: each session bounds its own
GONE = Failure(cause="upstream_lost", text="the backend does not have this session any more")


class SharedRequest(Struct, frozen=True, kw_only=True):
    """A request that waits for its answer.

    `session.lost` is called if the connection is lost; None if no session needs that. `asking` runs the script that
    asked.
    """

    answer: Callable[[Burst[Event]], None]
    session: Session | None = None
    asking: Asking[Command] | None = None

    def take_answer(self, answer: Burst[Event]) -> None:
        """Pass on the answer, and record it as a part of the session that asked."""
        if self.session is not None:
            self.session.delivery.enter()
        self.answer(answer)


class SharedRequests:
    """The requests of one connection that wait for their answers."""

    def __init__(self) -> None:
        self._waiting: dict[str, SharedRequest] = {}
        self._of_session: dict[str, set[str]] = {}  # session id -> ids of its requests

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, request: str, waiting: SharedRequest) -> None:
        self._waiting[request] = waiting
        if waiting.session is not None:
            self._of_session.setdefault(waiting.session.state.id, set()).add(request)

    def take(self, request: str) -> SharedRequest | None:
        """Return the request that an answer is for, and stop waiting for it."""
        waiting = self._waiting.pop(request, None) if request else None
        if waiting is not None and waiting.session is not None:
            of_session = self._of_session[waiting.session.state.id]
            of_session.discard(request)
            if not of_session:
                del self._of_session[waiting.session.state.id]
        return waiting

    def take_all(self) -> dict[str, SharedRequest]:
        """Return all requests, and stop waiting: the connection is lost."""
        waiting, self._waiting = self._waiting, {}
        self._of_session.clear()
        return waiting

    def drop_session(self, session: Session) -> None:
        """Drop the answers to a session that has ended; a late answer would create the session again."""
        for request in self._of_session.pop(session.state.id, ()):
            self._waiting[request] = SharedRequest(answer=do_nothing)


class SharedTexts:
    """The open text of all sessions that stream, as one block: a piece finds its session by its id at the backend."""

    delta: DeltaType = TextDelta  # no backend of many sessions reports reasoning

    def __init__(self) -> None:
        self._sinks: dict[str, TextSink] = {}

    def note(self, session: str, block: StreamedBlock | None) -> None:
        """Pass further pieces of a session's text to this block; with None, stop that."""
        if block is not None and block.delta is self.delta:
            self._sinks[session] = block.add_text
        else:
            self._sinks.pop(session, None)

    def clear(self) -> None:
        """Forget the blocks of all sessions, after the end of one. Each session that streams calls `note` again."""
        self._sinks.clear()

    def add_text(self, text: str, at: int, session: str) -> bool:
        """Append a piece of text to the open block of its session; return False if the session does not accept it."""
        sink = self._sinks.get(session)
        return sink is not None and sink(text, at, session)


class SharedKind(RememberingOpener):
    """The connection that carries all sessions of a route. Events and clients create them, and lists end them."""

    def __init__(self, sessions: Sessions, make_backend: MakeBackend) -> None:
        super().__init__(sessions, make_backend)
        self.dialect = sessions.upstream
        self.state = SessionState(id=sessions.route.name)  # the connection is about no session of its own
        self._made_up: dict[str, Session] = {}  # sessions for a listener whose backend had none
        self._watched: dict[str, Session] = {}  # canonical id -> session
        self._announced = AnnouncedSessions()
        self._texts = SharedTexts()
        self.requests = SharedRequests()
        sessions.watchers.append(self._note_end)
        sessions.on_suspended.append(self._forget)
        upstream = self._connect_upstream(self)
        if not isinstance(upstream, Upstream):
            raise ConfigError(f"route {self.state.id}: a backend with many sessions must be live, not a recording")
        self._upstream = upstream
        self._lists = SlicedWork(self._services.queue, upstream.fail)  # lists of the backend that are being read

    # -- what the router asks ------------------------------------------------------------------------------

    def subscribed(self) -> None:
        self._upstream.start()

    def is_worth_listing(self, row: SessionSummary) -> bool:
        """Return True if the session has a message, because every session there has a title."""
        return row.messages > 0

    def session_for_listener(self, wanted: str, principal: str) -> Session | None:
        if wanted not in ("", LATEST):
            name = "" if wanted == NEW else wanted
            return self._make(name, self._ids_of(name) if name else None, principal)
        newest = self._newest()
        if newest is None:
            newest = self._make("", principal=principal)
            self._made_up[newest.state.id] = newest
        return newest

    def _new_session(self, link: Link, command: OpeningCommand) -> Session:
        """Return a new session. If a client opens it, its id is the one that the client chose, as at the backend."""
        if not isinstance(command, OpenSession):
            return super()._new_session(link, command)
        session = self._make(command.session, principal=link.principal)
        self._sessions.claim(link, session)
        return session

    def when_known(self, link: Link, command: Command | None, action: Callable[[], None]) -> bool:
        if not self._list.is_known:
            self._upstream.start()
        later = self._sessions.postponed.postpone(link, action, command) if self._list.must_wait else action
        return self._list.when_known(later)

    def close(self) -> None:
        super().close()
        self._announced.close()
        self._lists.stop()
        self._list.stop()
        self._upstream.stop()

    # -- sessions ------------------------------------------------------------------------------------------

    def _make(self, name: str, ids: Ext | None = None, principal: str | None = None) -> Session:
        """Return a new session that a client of `principal` asks for, or that the backend has; "" gives it a new id."""
        own = canonical_id(self._sessions.route.name, name) if name else self._services.new_id()
        return self._sessions.make(own, self._connect, ids=ids, principal=principal)

    def _connect(self, session: Session) -> Backend:
        if session.state.backend_ids is None:
            session.pending.note_history()  # a new conversation has no history to wait for
        return SharedBackend(self, self._upstream, session, self._services)

    def _connect_control(self, control: Session) -> Backend:
        return self._connect(control)

    def _note_end(self, session: Session) -> None:
        if session not in self._sessions.index:
            self._made_up.pop(session.state.id, None)
            self._announced.remove_session(session)
            self._texts.clear()

    def _make_listed(self, name: str) -> Session:
        return self._make(name, self._ids_of(name))

    def _ids_of(self, name: str) -> Ext | None:
        """Return the ids of the session that the backend calls `name`."""
        return self.dialect.session_ref(name) if self.dialect.session_ref is not None else None

    def _show_newest(self) -> None:
        """Show the newest session to clients that wait for one, unless the backend has opened their own by now."""
        self._made_up = {own: s for own, s in self._made_up.items() if s.state.backend_ids is None}
        newest = self._newest() if self._made_up else None
        if newest is None:
            return
        for session in list(self._made_up.values()):
            seen = all(self._sessions.policy.sees(link.principal, newest.state) for link in session.presence.links)
            if seen and not session.in_flight:
                replace_session(self._sessions, session)

    def _end(self, session: Session) -> None:
        """End a session that the backend does not have any more.

        Clients that name none are shown the session that is behind their listener now.
        """
        self._sessions.list.take_row(session.state.id)
        if session in self._sessions.index:
            session.commands.give_all(DeleteSession)
            session.give_up(GONE)
            replace_session(self._sessions, session)

    # -- from the sessions ---------------------------------------------------------------------------------

    def watch(self, session: Session) -> None:
        """Ask the backend for the history of a session, now and over each new connection."""
        if session.state.id not in self._watched:
            self._watched[session.state.id] = session
            self._upstream.attach(session.state)

    def unwatch(self, session: Session) -> None:
        """Stop watching a session that no client uses. Do nothing if another session has replaced it."""
        if session in self._sessions.index:
            self._watched.pop(session.state.id, None)
            self._upstream.detach(session.state)

    def ask(self, session: Session, asking: Asking[Command], command: Command) -> None:
        """Send a request of a session's script; its answer goes to the script."""
        self.requests.add(command.request, SharedRequest(answer=asking.answer, session=session, asking=asking))
        self._upstream.send([command])

    def send(self, session: Session, commands: Sequence[Command]) -> None:
        """Write a session's commands."""
        named = [_named(command, session.state, self.dialect) for command in commands]
        for command in named:
            if len(self.requests) < ASKED_MAX:
                self.requests.add(command.request, _request_of(command, session, self))
        self._upstream.send(named)

    # -- from the backend ----------------------------------------------------------------------------------

    def connected(self) -> None:
        """Ask for every watched session again."""
        self._list.note_connected()
        for session in list(self._watched.values()):
            self._upstream.attach(session.state)

    def receive(self, bursts: list[Burst[Event]]) -> StreamedBlock | None:
        """Pass each answer to the session that asked, and each event to the session that it names."""
        for burst in bursts:
            if (request := self.requests.take(burst.request)) is not None:
                request.take_answer(burst)
            elif burst.session:
                self._receive_events(burst)
            else:
                for item in burst.items:
                    self._receive_unaddressed(item)
        return self._texts

    def _receive_events(self, burst: Burst[Event]) -> None:
        """Pass events to the session that they name. Create it if it is unknown and was not deleted."""
        known = self._sessions.index.find_session(burst.session)
        if any(isinstance(item, SessionClosed) for item in burst.items):
            self._sessions.list.take_row(burst.session)
            self._announced.note_deleted(burst.session)
        if not self._announced.may_announce(burst.session, burst.items) and known is None:
            losses = [_lost(item, "of a session that is over") for item in burst.items]
            self._services.ledger.record(losses, source=self.dialect.name)
            return
        session = known or self._announce(burst.session)
        session.delivery.enter()
        self._texts.note(burst.session, session.receive([burst]))
        for item in burst.items:
            if isinstance(item, SessionUpdated):
                self._describe(session, item.session)
            elif isinstance(item, SessionClosed):
                self._end(session)
        if known is None:
            self._show_newest()

    def _announce(self, name: str) -> Session:
        """Return a new session for one of which the backend sent an event."""
        session = self.find_session(name) or self._make_listed(name)
        self._announced.add_session(session)
        return session

    def _receive_unaddressed(self, item: Any) -> None:
        if isinstance(item, SessionsListed):
            self._lists.add_work(self._take_list(item))
        elif isinstance(item, StoreChanged) and self._sessions.publications.send(item):
            return
        elif not isinstance(item, Heartbeat):  # the translator watches for those, and our own clients get ours
            self._services.ledger.record([_lost(item, "of the backend, and of no session")], source=self.dialect.name)

    def _take_list(self, event: SessionsListed) -> Iterator[None]:
        """Keep the listed rows, and ask for sessions that the list lacks (docs/dialects/pando.md, section 6).

        Yield after each row. The newest one is listed first, and its row is added last, so it is dropped last.
        """
        found = set()
        for row in reversed(event.sessions):
            found.add(self._take_row(row))
            self._lists.count(LISTED)
            yield
        self._sessions.list.keep_only(found)
        self._show_newest()
        doubted = [s.state for s in self._sessions.index if s.state.backend_ids is not None and s.state.id not in found]
        self._list.note_list([partial(self._ask_about, state) for state in doubted])

    def _ask_about(self, doubted: SessionState) -> None:
        command = GetSession(request=self._services.new_id())
        self.requests.add(command.request, SharedRequest(answer=partial(self._check, doubted.id)))
        self._upstream.send([_named(command, doubted, self.dialect)])

    def _take_row(self, row: SessionSummary) -> str:
        """Update a session that is in use from its list row, or store the row of an unused one; return its id."""
        known = self._sessions.index.find_session(row.session)
        if known is not None:
            self._describe(known, row)
            return known.state.id
        own = canonical_id(self._sessions.route.name, row.session)
        ids = {**(row.ext or {}), **(self._ids_of(row.session) or {})}
        self._keep_row(structs.replace(row, session=own, ext=ids), self._sessions.past.owner_of(own))
        return own

    def _check(self, doubted: str, answer: Burst[Event]) -> None:
        """End a session that a list lacks if the backend's answer says that it does not exist."""
        session = self._sessions.index.find_session(doubted)
        failure = failure_in(answer.items)
        if session is not None and failure is not None and failure.cause == "not_found":
            session.delivery.enter()
            session.describe(SessionClosed)
            self._end(session)
        self._list.note_answer()

    def lost(self, text: str, unsent: Sequence[Command], cause: Cause = "upstream_lost") -> bool:
        """Report the loss to each session that is watched, has asked or has a turn, with its own unsent commands."""
        self._lists.stop()
        self._list.note_lost()
        self._watched |= {session.state.id: session for session in self._sessions.busy}  # also an unused one
        requests = self.requests.take_all()
        own: dict[str, list[Command]] = {}
        for request in requests.values():
            if request.session is not None and request.asking is not None:
                own[request.session.state.id] = request.asking.lost([])[1]
        for command in unsent:
            asked = requests.get(command.request)
            if asked is not None and asked.session is not None and asked.asking is None:
                own.setdefault(asked.session.state.id, []).append(command)
        named_sessions = [request.session for request in requests.values() if request.session is not None]
        sessions = {session.state.id: session for session in (*named_sessions, *self._watched.values())}
        return bool([s for s in sessions.values() if s.lost(text, own.get(s.state.id, []), cause)])


class SharedBackend:
    """The backend of one session, which uses the connection of all sessions."""

    def __init__(self, shared: SharedKind, upstream: Upstream, session: Session, services: Services) -> None:
        me: SharedBackend = weakref.proxy(self)
        self._shared = shared
        self._upstream = upstream
        self._session = session
        self._asking: Asking[Command] = Asking(
            lambda command: shared.ask(me._session, me._asking, command),
            lambda held: shared.send(me._session, held),
            lambda held, failure: me._refuse(held, failure),  # noqa: PLW0108  # a bound method would keep the backend
            services=services,
        )

    def start(self) -> None:
        self._upstream.start()
        self._shared.watch(self._session)

    def send(self, commands: Sequence[Command]) -> None:
        """Write commands. If the backend has no session yet, the first input opens it and the commands wait."""
        opens = self._session.state.backend_ids is None and any(isinstance(c, SubmitInput) for c in commands)
        if self._asking.active or opens:
            if excess := self._asking.hold(commands):
                self._session.lost(TOO_MANY_HELD, excess, "busy")
            if not self._asking.active:
                self._asking.begin(self._open())
            return
        if not all(isinstance(command, OpeningCommand) for command in commands):
            self._shared.watch(self._session)
        self._shared.send(self._session, commands)

    def _open(self) -> Script:
        """Open the session at the backend, provided that the backend takes input."""
        state = self._session.state
        answer = yield CancelTurn(session=state.id)
        failure = failure_in(answer.items)
        # a backend that takes input can interrupt a turn, too
        if failure is not None and failure.cause in ("unsupported", "denied"):
            text = f"this {self._shared.dialect.name} takes no input from other programs ({failure.text})"
            raise Refused(Failure(cause="unsupported", text=text))
        answer = yield OpenSession(session=state.id, title=state.title)
        opened = opened_in(answer.items)
        self._session.receive([structs.replace(answer, items=[structs.replace(opened, request="")])])
        if state.backend_ids is None:  # it has joined the open session of that name, with the commands held here
            self._asking.stop()
        else:
            self._upstream.attach(state)

    def _refuse(self, held: list[Command], failure: Failure) -> None:
        self._session.receive(refusals(held, failure))

    def suspend(self) -> bool:
        self._shared.unwatch(self._session)
        return False

    def stop(self) -> None:
        self._asking.stop()
        self.suspend()
        self._shared.requests.drop_session(self._session)


def _lost(item: Any, why: str) -> Loss:
    return Loss(kind=type(item).__name__, why=why, sample=item)


def _named(command: Command, state: SessionState, dialect: Dialect) -> Command:
    """Return a command with the session's id replaced by the name that the backend has for it."""
    if state.backend_ids is None and isinstance(command, GetSession | ResumeSession):
        return command  # it names a session that only the backend may know
    (name, *_) = dialect.public_ids(state.id, state.ids)
    return structs.replace(command, session=name)


def _request_of(command: Command, session: Session, shared: SharedKind) -> SharedRequest:
    return SharedRequest(answer=partial(_take_answer, command, session, shared), session=session)


def _take_answer(command: Command, session: Session, shared: SharedKind, answer: Burst[Event]) -> None:
    """Pass an answer to its session.

    After a DeleteSession also delete it: a pando publishes no `session.deleted` then.
    """
    session.receive([answer])
    if isinstance(command, DeleteSession) and failure_in(answer.items) is None:
        shared.receive([Burst(items=[SessionClosed(session=session.summary())], session=command.session)])
