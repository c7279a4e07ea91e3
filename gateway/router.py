"""Bring each command of a downstream link to the session that it means (docs/design.md, section 5).

Each route has one router. It answers what needs no session (ping, lists), opens and finds sessions, and attaches links
to them. A client that names no session means the one of its listener. A foreign session is answered exactly like an
unknown one (routing/policy.py). Which sessions the backend has is asked of its kind (backends/kind.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from dragoman.adapters.base import CloseReason
from dragoman.gateway.backends.kind import BackendKind, not_found
from dragoman.gateway.config.model import Role, Route
from dragoman.gateway.fair_queue import WorkOfLinks
from dragoman.gateway.identity.roles import needed_role
from dragoman.gateway.link import Link, opening_trace
from dragoman.gateway.lists import Lists
from dragoman.gateway.routing.catch_ups import CatchUps
from dragoman.gateway.routing.quota import Refused
from dragoman.gateway.routing.sessions import RouteEvents, Sessions
from dragoman.gateway.services import Services
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import (
    AnswerApproval,
    AnswerInteraction,
    AnswerOtp,
    DeleteSession,
    GetCapabilities,
    GetConfig,
    GetHistory,
    GetSession,
    ListConfig,
    ListModels,
    ListSessions,
    OpenSession,
    Ping,
    PromptOnce,
    ReloadConfig,
    ResumeSession,
    SetConfig,
    ShutdownBackend,
    StoreWrite,
    UnsetConfig,
)
from dragoman.mappings.canonical.events import (
    BackendShutdown,
    Pong,
    Reply,
    SessionActivated,
    SessionClosed,
    SessionOpened,
    SessionsListed,
)
from dragoman.mappings.canonical.unmapped import Unmapped
from dragoman.mappings.canonical.values import Failure
from dragoman.mappings.dialect import Burst, Dialect, Loss

if TYPE_CHECKING:
    from dragoman.gateway.recording.recorder import Recorder

OF_THE_BACKEND = (
    GetCapabilities,
    GetConfig,
    SetConfig,
    UnsetConfig,
    ListConfig,
    ReloadConfig,
    ListModels,
    PromptOnce,
)
"""Commands that concern no session, unless they name one."""

ID_IN_USE = "sqlite3: constraint failed: UNIQUE constraint failed: sessions.id"
"""The words of a real pando, the one dialect whose clients choose ids."""


class Router:
    """Brings commands to the sessions of one route.

    `upstream` is how the backend behaves, and `make_kind` returns what knows which sessions it has.
    """

    def __init__(
        self,
        route: Route,
        services: Services,
        upstream: Dialect,
        make_kind: Callable[[Sessions], BackendKind],
        recorder: Recorder | None = None,
        events: RouteEvents = RouteEvents(),  # noqa: B008  # frozen
    ) -> None:
        self.recorder = recorder
        self.route = self._route = route
        self._services = services = services.for_route(route)
        self._ledger = services.ledger
        self._upstream = upstream
        self._all = Sessions(route, services, upstream, self._enter, recorder, events)
        self._backend = make_kind(self._all)
        self._work = WorkOfLinks(services.queue)
        self._lists = Lists(self._all, self._backend, self._do_work)
        self._catch_ups = CatchUps(self._all.index, self._do_work)
        self.drained = self._catch_ups.drained
        self._policy = self._all.policy
        self.watch = self._all.watch
        self.busy = self._all.busy
        self.behind = self._all.entrances.find_session
        self._events = events

    @property
    def services(self) -> Services:
        """The services of new links and sessions, with the limits of the route."""
        return self._services

    @property
    def sessions(self) -> list[Session]:
        """All sessions of the route."""
        return list(self._all.index)

    def find_id(self, name: str) -> str:
        """Return the id of the session that the backend calls `name`, "" if there is none."""
        session = self._all.index.find_session(name)
        return session.state.id if session is not None else ""

    def lives(self, session: Session) -> bool:
        """Return True if this is a session of the route that has not ended."""
        return session in self._all.index

    @property
    def published(self) -> int:
        """Number of sessions that are published to every subscriber."""
        return self._all.publications.count

    def close_session(self, session: Session) -> str:
        """Close a session for an operator. Return why it cannot be closed, or ""."""
        if self._backend.cannot_delete:
            return self._backend.cannot_delete.replace("deleted", "closed")
        self._services.audit.note("close", "operator", session=session.state.id)
        session.delivery.enter()
        session.give_up(Failure(cause="upstream_lost", text="an operator closed the session"))
        session.describe(SessionClosed)
        self._all.move_on(session)
        return ""

    def change_route(self, route: Route, services: Services) -> None:
        """Open new sessions with these options and limits; sessions that are open keep theirs.

        Who may see a session changes at once.
        """
        self.route = self._route = route
        self._services = services = services.for_route(route)
        self._all.change_route(route, services)

    def stop(self) -> None:
        """Stop every session: the gateway ends."""
        self._all.stop()
        self._backend.close()

    # -- links -----------------------------------------------------------------------------------------

    def connected(self, link: Link) -> None:
        """Greet a peer. A dialect whose backends hold one session is shown the session of its listener at once."""
        link.open()
        if link.publishes:
            self._all.publications.add_link(link)
        elif link.dialect.single_session:
            self._once_known(link, None, lambda: self._enter(link))

    def _once_known(self, link: Link, command: Command | None, action: Callable[[], None]) -> None:
        """Call `action` once the sessions that it needs are known; disconnect `link` if too many wait."""
        if not self._backend.when_known(link, command, lambda: action() if link.alive else None):
            link.end(CloseReason.GOING_AWAY, "too many commands wait until the sessions of the backend are known")

    def _enter(self, link: Link) -> None:
        try:
            session = self._behind(link) if link.roles is None or "watch" in link.roles else None
        except Refused as refused:
            self._services.audit.refuse(link, refused.failure.text)
            link.send([Reply(request="", failure=refused.failure)])
            link.end(CloseReason.FULL, refused.failure.text)
            return
        if session is None or not self._policy.sees(link.principal, session.state):
            self._services.audit.refuse(link, "there is no session here for this client")
            link.send([Reply(request="", failure=Failure(cause="not_found", text="there is no session here for you"))])
            link.end(CloseReason.DONE)
            return
        self._all.claim(link, session)
        session.backend.start()
        session.presence.enter(link)

    def _behind(self, link: Link) -> Session | None:
        """Return the session that all clients of a listener share; None if its backend has none for it now."""
        ingress = link.ingress
        known = self._all.entrances.find_session(ingress)
        if known is not None and self._backend.leads_to(known):
            return known
        wanted = ingress.session
        session = self._named(wanted) or self._backend.session_behind(wanted, link.principal)
        if session is not None:
            self._all.enter_by(ingress, session)
        return session

    def subscribed(self) -> None:
        """Connect to a backend of one connection for somebody who subscribed to what happens there."""
        self._backend.subscribed()

    def gone(self, link: Link) -> None:
        """Detach a peer that went away, and drop those of its sessions that nobody has used."""
        if link.publishes:
            self._all.publications.remove_link(link)
        self._all.gone(link)
        self._work.stop_link(link.id)
        self._catch_ups.stop_link(link)

    def _do_work(self, link: Link, work: Iterator[None]) -> None:
        """Do work of a link in slices, between which other links are served."""

        def fail(error: Exception) -> None:
            link.log.error("link failed", exc_info=error)
            link.end(CloseReason.INTERNAL)

        self._work.add_work(link.id, work, fail)

    def receive(self, link: Link, bursts: list[Burst[Command]]) -> None:
        """Act on commands of a peer. A peer that speaks before it was shown anything is shown what there is."""
        if link.dialect.single_session and (own := self._all.entrances.find_session(link.ingress)) is not None:
            own.pending.admit(link)
        for burst in bursts:
            for command in burst.items:
                self._once_known(link, command, partial(self._hear, link, command))

    # -- commands --------------------------------------------------------------------------------------

    def _hear(self, link: Link, command: Command) -> None:
        if link.tap is not None:
            link.tap.asks(command)
        if link.roles is None or self._is_allowed(link, link.roles, command):
            self._command(link, command)

    def _is_allowed(self, link: Link, roles: frozenset[Role], command: Command) -> bool:
        """Return True if the roles of a peer allow its command; else refuse it."""
        role = needed_role(command, shuts_down=self.route.shutdown == "backend")
        if role is None or role in roles:
            return True
        self._ledger.counters["commands_refused_by_role"] += 1
        action = type(command).__name__
        self._services.audit.refuse(link, f"needs the role `{role}`", session=command.session, command=action)
        link.refuse(command.request, "denied", f"you may not do this here: it needs the role `{role}`")
        return False

    def _command(self, link: Link, command: Command) -> None:
        match command:
            case Ping():
                link.send([Pong(request=command.request, at=self._services.clock())])
            case ListSessions() | GetSession() | ResumeSession() if link.dialect.single_session:
                self._describe(link, command)
            case ListSessions():
                self._lists.tell_page(link, command)
            case OpenSession():
                self._open(link, command)
            case ResumeSession():
                self._resume(link, command)
            case GetSession():
                self._get(link, command)
            case ShutdownBackend():
                self._shut_down(link, command)
            case DeleteSession() if not self._upstream.commands.can_write_type(DeleteSession):
                self._delete(link, command)
            case Unmapped():
                self._unsupported(link, command, f"unknown: {command.tag}")
            case _:
                self._act(link, command)

    def _resume(self, link: Link, command: ResumeSession) -> None:
        session = self._find(link, command.session)
        brought, takes = link.dialect.brings_history(command), self._upstream.takes_history is not None
        if brought and (session is not None or not takes):
            why = "what is open here gets no other history" if takes else "the backend takes none"
            loss = Loss(kind="ResumeSession", field="history", why=why, count=brought)
            own = session.state.id if session is not None else ""
            self._ledger.record([loss], session=own, source=link.dialect.name, target=self._upstream.name)
        if session is not None:
            self._show(link, session, command.request, command.agent)
            session.describe(SessionActivated)
        elif self._all.past.is_hidden(command.session):
            self._not_found(link, command)
        else:
            self._show_opened(link, command, lambda: self._backend.resume_session(link, command))

    def _act(self, link: Link, command: Command) -> None:
        if isinstance(command, OF_THE_BACKEND) and not command.session:
            self._ask_of_backend(link, command)
            return
        if isinstance(command, StoreWrite) and not command.session:
            self._unsupported(link, command, "there is no database here")
            return
        session = self._find(link, command.session)
        answers = isinstance(command, AnswerApproval | AnswerOtp | AnswerInteraction)
        if session is None and not self._all.past.is_hidden(command.session) and self._backend.ask_for(link, command):
            return
        if session is None or (answers and not self._policy.answers(link.principal, session.state)):
            self._not_found(link, command)
            return
        if link.attaches and link.id not in session.delivery.attachments:  # any action that names a session attaches
            self._all.claim(link, session)
            session.presence.attach(link)
        elif not link.attaches:
            session.presence.note_use()
        session.delivery.enter()
        if isinstance(command, GetHistory) and not link.attaches:
            self._backend.when_described(link, lambda: session.command(link, command))
        else:
            session.command(link, command)

    def _shut_down(self, link: Link, command: ShutdownBackend) -> None:
        """Detach this client, or shut down the backends that it uses (docs/translation.md, rule 3.16)."""
        used = self._all.index.sessions_of(link)
        if self._route.shutdown == "backend" and used:
            first, *others = used
            first.in_flight.forward(link, command)
            for session in others:
                session.in_flight.forward(None, command)
        else:
            link.send([Reply(request=command.request)])
            link.send([BackendShutdown(reason="detached")])
            link.end(CloseReason.DONE)
        self._events.on_shutdown(link)

    def _ask_of_backend(self, link: Link, command: Command) -> None:
        control = self._backend.control() if self._upstream.commands.can_write_type(type(command)) else None
        if control is not None:
            control.in_flight.forward(link, command)
        else:
            self._unsupported(link, command, f"a {self._upstream.name} backend cannot be asked this")

    def _delete(self, link: Link, command: DeleteSession) -> None:
        """Forget a session whose backend has no word for that: it is shown to nobody any more."""
        session = self._find(link, command.session)
        listed = self._backend.listed(command.session)
        if session is not None and self._backend.cannot_delete:
            self._unsupported(link, command, self._backend.cannot_delete)
            return
        if session is not None:
            self._all.past.hide(self._all.index.names(session))
            session.delivery.enter()
            self._services.audit.note("close", link, session=session.state.id)
            session.describe(SessionClosed)
            self._all.drop(session)
        elif listed is not None and not self._all.past.is_hidden(command.session):
            self._all.past.hide((command.session, listed.session))
        else:
            self._not_found(link, command)
            return
        link.send([Reply(request=command.request)])

    def _describe(self, link: Link, command: ListSessions | GetSession | ResumeSession) -> None:
        """Answer a client that is shown one session: with that, or with those of the directory it came by."""
        own = self._all.entrances.find_session(link.ingress)
        if own is not None and link.ingress.directory is not None:
            link.send([link.ingress.directory.answer(command, own.state)])
        elif own is not None and isinstance(command, ListSessions):
            link.send([SessionsListed(request=command.request, sessions=(own.summary(),))])
        elif own is not None and command.session in ("", own.state.id):
            self._show(link, own, command.request, "")
        else:
            self._not_found(link, command)

    def _open(self, link: Link, command: OpenSession) -> None:
        if command.session and self._all.in_use(link, command.session):
            failure = Failure(cause="busy", text=ID_IN_USE)
            link.send([Reply(request=command.request, failure=failure)])
        else:
            self._show_opened(link, command, lambda: self._backend.open_session(link, command))

    def _show_opened(
        self, link: Link, command: OpenSession | ResumeSession, find: Callable[[], Session | None]
    ) -> None:
        """Show the session that `find` returns, or answer why there is none; with None the backend is asked."""
        try:
            session = find()
        except Refused as refused:
            self._services.audit.refuse(link, refused.failure.text, command=type(command).__name__)
            link.send([Reply(request=command.request, failure=refused.failure)])
            return
        if session is None:
            return
        self._services.audit.note("open", link, session=session.state.id)
        if command.agent:
            session.state.agent = command.agent
        session.state.trace = session.state.trace or opening_trace(link, command)
        if isinstance(command, OpenSession):
            self._all.choose(link, session, command.session)
            session.describe()
        self._show(link, session, command.request, command.agent)

    def _get(self, link: Link, command: GetSession) -> None:
        session = self._find(link, command.session)
        if session is not None:
            self._show(link, session, command.request, "")
        elif self._all.past.is_hidden(command.session):
            self._not_found(link, command)
        else:
            try:
                self._backend.get_session(link, command)
            except Refused as refused:
                link.send([Reply(request=command.request, failure=refused.failure)])

    def _show(self, link: Link, session: Session, request: str, agent: str) -> None:
        state = session.state
        session.delivery.enter()
        if link.id in session.delivery.attachments:
            opened = SessionOpened(
                request=request,
                session=state.id,
                agent=agent or state.agent,
                title=state.title,
                status=state.status,
                ext=state.ids,
            )
            link.send([opened])
        else:
            self._all.claim(link, session)
            session.presence.attach(link, request)

    def _find(self, link: Link, name: str) -> Session | None:
        """Return the session that `link` calls `name`, or its own for ""; None if there is none that it may see."""
        if not name:
            mine = self._all.index.sessions_of(link)
            return mine[0] if len(mine) == 1 else None
        session = self._named(name)
        if session is None or self._policy.sees(link.principal, session.state):
            return session
        self._services.audit.refuse(link, "the session belongs to another principal", session=session.state.id)
        return None

    def _named(self, name: str) -> Session | None:
        return self._all.index.find_session(name) or self._backend.find_session(name)

    def _unsupported(self, link: Link, command: Command, text: str) -> None:
        link.send([Reply(request=command.request, failure=Failure(cause="unsupported", text=text))])

    def _not_found(self, link: Link, command: Command) -> None:
        link.send([Reply(request=command.request, failure=not_found(command.session))])
