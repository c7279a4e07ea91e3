"""Pass each command of a client's link to the session that it concerns (docs/design.md, section 5).

Each route has one router. It answers what needs no session (ping, lists), opens and finds sessions, and attaches links
to them. A client that names no session means the one of its listener. A foreign session is answered exactly like an
unknown one (routing/policy.py). The kind of backend knows which sessions the backend has (backends/kind.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from dragoman.adapters.base import CloseReason
from dragoman.gateway.backends.kind import BackendKind
from dragoman.gateway.config.model import Role, Route
from dragoman.gateway.identity.principal import needed_role
from dragoman.gateway.link import Link
from dragoman.gateway.observability import audit
from dragoman.gateway.overload.fair_queue import LEAVE
from dragoman.gateway.routing.past_sessions import KnownSessions
from dragoman.gateway.routing.policy import Refused
from dragoman.gateway.routing.session_commands import SessionCommands, refuse_unknown
from dragoman.gateway.routing.sessions import RouteEvents, Sessions
from dragoman.gateway.services import Services
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import (
    ANSWERS,
    CONFIGURATION,
    DeleteSession,
    GetHistory,
    GetSession,
    ListSessions,
    OpenSession,
    Ping,
    PromptOnce,
    ResumeSession,
    ShutdownBackend,
    StoreWrite,
)
from dragoman.mappings.canonical.events import BackendShutdown, Pong, Reply
from dragoman.mappings.canonical.unions import Unmapped
from dragoman.mappings.canonical.values import Failure
from dragoman.mappings.dialect import Burst, Dialect

if TYPE_CHECKING:
    from dragoman.gateway.recording.recorder import Recorder

LEFT_AT_ONCE = 16  # sessions from which a client that has left is detached at once: each takes 50 to 80 us

OF_THE_BACKEND = (*CONFIGURATION, PromptOnce, StoreWrite)
"""Commands for the backend as a whole, unless they name a session."""

TOO_MANY_WAIT = "too many commands wait until the sessions of the backend are known (`pending_commands`)"


class Router:
    """Passes commands to the sessions of one route.

    `upstream` is the dialect of the backend, and `make_kind` returns its BackendKind. `services` are those of new links
    and sessions, with the limits of the route. `known` is shared with other routers of the backend.
    """

    def __init__(
        self,
        route: Route,
        services: Services,
        upstream: Dialect,
        make_kind: Callable[[Sessions], BackendKind],
        recorder: Recorder | None = None,
        events: RouteEvents = RouteEvents(),  # noqa: B008  # frozen
        known: KnownSessions | None = None,
    ) -> None:
        self.recorder, self.route = recorder, route
        self.services = services = services.for_route(route)
        self._ledger = services.ledger
        self.upstream = upstream
        self._all = Sessions(route, services, upstream, self._enter, recorder, events, known)
        self.backend = make_kind(self._all)
        self.subscribed = self.backend.subscribed
        self._commands = SessionCommands(self._all, self.backend)
        self.close_session = self._commands.close_session
        self._catching_up: set[str] = set()  # ids of links, each with one catch-up that waits for its next slice
        self._policy = self._all.policy
        self.watch = self._all.watchers.append
        self.busy = self._all.busy
        self.find_listener_session = self._all.listener_sessions.find_session
        self._events = events

    @property
    def sessions(self) -> list[Session]:
        return list(self._all.index)

    def find_id(self, name: str) -> str:
        """Return the id of the session that the backend calls `name`, "" if there is none."""
        session = self._all.index.find_session(name)
        return session.state.id if session is not None else ""

    def is_live(self, session: Session) -> bool:
        return session in self._all.index

    @property
    def published(self) -> int:
        """Number of sessions that are published to every subscriber."""
        return self._all.publications.count

    async def end_turns(self, links: Collection[Link], why: str) -> None:
        """Fail each open turn that has no other clients, in turn with other work; drop its further events."""
        leaving, failure = {link.id for link in links}, Failure(cause="upstream_lost", text=why)
        for session in list(self.busy):
            await self.services.queue.departures.wait_for_turn()
            if leaving.issuperset(session.delivery.attachments):
                now = self.services.clock()
                session.deliver(session.form.cut("failed", failure, now, discard=True), now)

    def change_route(self, route: Route, services: Services) -> None:
        """Open new sessions with these options and limits; open sessions keep theirs.

        Changes of access apply immediately.
        """
        self.route = route
        self.services = services = services.for_route(route)
        self._all.change_route(route, services)

    async def stop(self) -> None:
        """Stop every session. The backend is closed first, because it may announce new sessions without end."""
        self.backend.close()
        await self._all.stop()

    # -- links -----------------------------------------------------------------------------------------

    def connected(self, link: Link) -> None:
        """Greet a peer. Attach it to the session of its listener if the backends of its dialect have one session."""
        link.greet()
        if link.publishes:
            self._all.publications.add_link(link)
        elif link.dialect.single_session:
            link.outbox.hold_commands()  # until it has entered the session, also if it leaves before
            self._once_known(link, None, partial(self._enter, link))

    def _once_known(self, link: Link, command: Command | None, action: Callable[[], None]) -> None:
        """Call `action` once the sessions that it needs are known; disconnect `link` if too many wait."""
        if not self.backend.when_known(link, command, action):
            link.end(CloseReason.GOING_AWAY, TOO_MANY_WAIT)

    def _enter(self, link: Link) -> None:
        if not link.alive:
            return
        try:
            session = self._listener_session(link) if link.roles is None or "watch" in link.roles else None
        except Refused as refused:
            audit.refuse(link, refused.failure.text)
            link.send([Reply(request="", failure=refused.failure)])
            link.end(CloseReason.FULL, refused.failure.text)
            return
        if session is None or not self._policy.sees(link.principal, session.state):
            audit.refuse(link, "there is no session here for this client")
            link.refuse("", "not_found", "there is no session here for you")
            link.end(CloseReason.DONE)
            return
        self._all.claim(link, session)
        session.backend.start()
        session.presence.enter(link)

    def _listener_session(self, link: Link) -> Session | None:
        """Return the session that all clients of the link's listener share; None if the backend has none for it now."""
        ingress = link.ingress
        known = self._all.listener_sessions.find_session(ingress)
        if known is not None and self.backend.takes_further_clients(known):
            return known
        wanted = ingress.session
        session = self._commands.find_named(wanted) or self.backend.session_for_listener(wanted, link.principal)
        if session is not None:
            self._all.assign_listener(ingress, session)
        return session

    def leave_some(self, link: Link) -> None:
        """Detach a peer that has left from at most LEFT_AT_ONCE of its sessions."""
        for own in list(islice(link.sessions, LEFT_AT_ONCE)):
            del link.sessions[own]
            if (session := self._all.index.live_session(own)) is not None:
                self._all.leave(link, session)
        self.services.queue.spend(LEFT_AT_ONCE * LEAVE)

    def gone(self, link: Link) -> None:
        """Detach a peer that has left from its sessions, and drop those that were never used."""
        if link.publishes:
            self._all.publications.remove_link(link)
        if link.id in self._all.postponed.waiting:
            self._all.postponed.drop(link)
        self._all.gone(link)
        self._catching_up.discard(link.id)

    def drained(self, link: Link) -> None:
        """Deliver the events that were held back for a slow peer, after it has read everything that it was sent."""
        if link.behind and link.id not in self._catching_up:
            self._catching_up.add(link.id)
            link.add_work(self._catch_up(link))

    def _catch_up(self, link: Link) -> Iterator[None]:
        try:
            for session in self._all.index.live_sessions(link.behind):
                yield from session.delivery.catch_up(link)
        finally:
            self._catching_up.discard(link.id)

    def receive(self, link: Link, bursts: list[Burst[Command]]) -> None:
        """Perform commands of a peer. A peer that has not been attached yet is attached first."""
        if link.dialect.single_session and (own := self._all.listener_sessions.find_session(link.ingress)) is not None:
            own.pending.admit(link)
        for burst in bursts:
            for command in burst.items:
                self._once_known(link, command, partial(self._perform, link, command))

    # -- commands --------------------------------------------------------------------------------------

    def _perform(self, link: Link, command: Command) -> None:
        """Perform a command of a peer, if the peer is still connected and its roles allow the command."""
        if link.alive and link.tap is not None:
            link.tap.note_command(command)
        if not link.alive or not (link.roles is None or self._is_allowed(link, link.roles, command)):
            return
        match command:
            case Ping():
                link.send([Pong(request=command.request, at=self.services.clock())])
            case ListSessions() | GetSession() | ResumeSession() if link.dialect.single_session:
                self._commands.describe_own(link, command)
            case ListSessions():
                self._commands.list_sessions(link, command)
            case OpenSession():
                self._commands.open_session(link, command)
            case ResumeSession():
                self._commands.resume_session(link, command)
            case GetSession():
                self._commands.get_session(link, command)
            case ShutdownBackend():
                self._shut_down(link, command)
            case DeleteSession() if not self.upstream.commands.can_write_type(DeleteSession):
                self._commands.delete_session(link, command)
            case Unmapped():
                link.refuse(command.request, "unsupported", f"unknown: {command.tag}")
            case _:
                self._perform_in_session(link, command)

    def _is_allowed(self, link: Link, roles: frozenset[Role], command: Command) -> bool:
        """Return True if the roles of a peer allow its command; else refuse it."""
        is_answer = self._commands.is_answer(link, command)
        role = "answer" if is_answer else needed_role(command, shuts_down=self.route.shutdown == "backend")
        if role is None or role in roles:
            return True
        self._ledger.counters["refused_command_role"] += 1
        action = type(command).__name__
        audit.refuse(link, f"needs the role `{role}`", session=command.session, command=action)
        link.refuse(command.request, "denied", f"you may not do this here: it needs the role `{role}`")
        return False

    def _perform_in_session(self, link: Link, command: Command) -> None:
        is_foreign = link.dialect.name != self.upstream.name
        if is_foreign and not isinstance(command, Unmapped) and command.own_dialect_only:
            self._commands.refuse_write(link, command)
            return
        if isinstance(command, OF_THE_BACKEND) and not command.session:
            self._ask_of_backend(link, command)
            return
        session = self._commands.find_session(link, command.session)
        answers = isinstance(command, ANSWERS)
        if (
            session is None
            and not self._all.past.is_hidden(command.session)
            and self.backend.request_session(link, command)
        ):
            return
        if session is None or (answers and not self._policy.sees(link.principal, session.state)):
            refuse_unknown(link, command)
            return
        if link.attaches and link.id not in session.delivery.attachments:  # any action that names a session attaches
            self._all.claim(link, session)
            session.presence.attach(link)
        elif not link.attaches:
            session.presence.note_use()
        session.delivery.enter()
        if isinstance(command, GetHistory) and not link.attaches:
            self.backend.when_described(link, lambda: session.commands.act(link, command))
        elif isinstance(command, GetHistory) and not self.upstream.stores_history:  # it is answered from the transcript
            session.pending.when_known(lambda: self._commands.act_late(link, command, session))
        else:
            session.commands.act(link, command)

    def _shut_down(self, link: Link, command: ShutdownBackend) -> None:
        """Detach this client, and shut its backends down if the route allows that (docs/translation.md, rule 3.16)."""
        used = self._all.index.live_sessions(link.sessions) if self.route.shutdown == "backend" else []
        for session in used:
            session.in_flight.forward(None, command)
        link.send([Reply(request=command.request)])
        link.send([BackendShutdown(reason="detached")])
        link.end(CloseReason.DONE)
        self._events.on_shutdown(link)

    def _ask_of_backend(self, link: Link, command: Command) -> None:
        """Send a command that belongs to no session to the backend."""
        if self.upstream.commands.can_write_type(type(command)):
            self.backend.control().in_flight.forward(link, command)
        else:
            refusal = self.upstream.commands.from_canonical.refusal_of(type(command))
            link.send([Reply(request=command.request, failure=refusal)])
