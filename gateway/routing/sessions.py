"""Create, name and drop the sessions of one route, and attach clients to them (docs/design.md, section 5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import structlog
from msgspec import Struct, structs

from dragoman.adapters.base import CloseReason, do_nothing
from dragoman.gateway.config.model import Route
from dragoman.gateway.ingress import LATEST, NEW, Ingress
from dragoman.gateway.link import Link
from dragoman.gateway.overload.fair_queue import OPEN
from dragoman.gateway.routing.ids import agent_id, canonical_id
from dragoman.gateway.routing.past_sessions import KnownSessions, PastSessions
from dragoman.gateway.routing.policy import Policy, SessionQuota
from dragoman.gateway.routing.postponed import PostponedActions
from dragoman.gateway.routing.session_index import SessionIndex
from dragoman.gateway.routing.session_list import SessionList
from dragoman.gateway.routing.session_sets import BusySessions, ListenerSessions, Publications, UnopenedSessions
from dragoman.gateway.services import Services
from dragoman.gateway.session.ports import Backend
from dragoman.gateway.session.runs import Run
from dragoman.gateway.session.session import Session, SessionObserver
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.canonical.commands import OpenSession, ResumeSession
from dragoman.mappings.canonical.events import SessionClosed
from dragoman.mappings.canonical.values import BackendInfo, Ext, Failure
from dragoman.mappings.dialect import Dialect

if TYPE_CHECKING:
    from dragoman.gateway.recording.recorder import Recorder
    from dragoman.gateway.recording.session_recorder import SessionRecorder

Opening = TypeVar("Opening", bound=OpenSession | ResumeSession)

STOPPED_AT_ONCE = 64  # sessions: an idle one takes about 12 us, one with a turn and a client 0.3 ms

log = structlog.get_logger("dragoman.session")


class SessionFactory:
    """Builds sessions with the options, limits and upstream dialect of a route.

    They are recorded if there is a `recorder`, and all have the same `observer`.
    """

    def __init__(
        self,
        route: Route,
        services: Services,
        upstream: Dialect,
        observer: SessionObserver,
        recorder: Recorder | None = None,
    ) -> None:
        self._upstream = upstream
        self._observer = observer
        self._recorder = recorder
        self.change_route(route, services)

    def change_route(self, route: Route, services: Services) -> None:
        self._route = route
        self._services = services
        self._opening = self.complete(OpenSession())
        self._pod_name = next((one.pod_name for one in route.listen if one.pod_name), "")

    def make(
        self,
        id: str,
        connect: Callable[[Session], Backend],
        *,
        name: str = "",
        ids: Ext | None = None,
        owner: str = "",
    ) -> Session:
        """Return a session with the backend that `connect` makes.

        `owner` is the owner of a forgotten session with the same id.
        """
        state = self._state(id, name, ids, owner)
        recorder = self._recorder.record_session(state) if self._recorder is not None else None
        return self._session(state, connect, recorder)

    def make_unopened(self, connect: Callable[[Session], Backend]) -> Session:
        """Return a session with a provisional id, under which its recording begins."""
        state = self._state(self._services.new_id())
        recorder = self._recorder.record_unopened(state) if self._recorder is not None else None
        return self._session(state, connect, recorder)

    def make_unlisted(self, id: str, connect: Callable[[Session], Backend]) -> Session:
        """Return a session that no client uses, and that is not recorded."""
        return self._session(self._state(id), connect, None)

    def _state(self, id: str, name: str = "", ids: Ext | None = None, owner: str = "") -> SessionState:
        return SessionState(
            id=id,
            owner=owner,
            opened_at=self._services.clock(),
            opening=self._opening,
            backend=BackendInfo(name=name or self._pod_name),
            backend_ids=ids,
        )

    def _session(
        self, state: SessionState, connect: Callable[[Session], Backend], recorder: SessionRecorder | None
    ) -> Session:
        self._services.queue.spend(OPEN)
        return Session(
            state,
            self._route,
            self._upstream,
            self._services,
            connect=connect,
            observer=self._observer,
            recorder=recorder,
        )

    def complete(self, command: Opening) -> Opening:
        """Return the command with the route's agent, user, model and folder, where the client named none."""
        upstream = self._route.upstream
        agent = command.agent or upstream.option("agent") or agent_id(self._route.name)
        user = command.user_name or upstream.option("user")
        if isinstance(command, OpenSession):
            model = command.model or upstream.option("model")
            cwd = command.cwd or upstream.option("cwd")
            command = structs.replace(command, model=model, cwd=cwd)
        return structs.replace(command, agent=agent, user_name=user)


class RouteEvents(Struct, frozen=True, kw_only=True):
    """Functions of the program that are called when something happens on a route."""

    on_run: Callable[[Session, Run], None] = do_nothing
    """Called when a session has delivered events other than text."""
    on_shutdown: Callable[[Link], None] = do_nothing
    """Called when a client sends `shutdown`."""


class Sessions:
    """The live sessions of a route.

    `upstream` is the dialect of their backend. `enter` attaches a link to the session of its listener. `known` is
    shared by all routers of the backend.
    """

    def __init__(
        self,
        route: Route,
        services: Services,
        upstream: Dialect,
        enter: Callable[[Link], None],
        recorder: Recorder | None,
        events: RouteEvents = RouteEvents(),  # noqa: B008  # frozen
        known: KnownSessions | None = None,
    ) -> None:
        self.route = route
        self.services = services
        self.upstream = upstream
        self.enter = enter
        self.index = SessionIndex(services.dialects)
        self.postponed = PostponedActions()
        self.policy = Policy(route, upstream)
        self.list = SessionList(self.index, self.policy, services.queue.budget)
        self.quota = SessionQuota(lambda: self.services)
        self.busy = BusySessions()
        self._recorder = recorder
        self.listener_sessions = ListenerSessions()
        self.past = PastSessions(route.name, known or KnownSessions())
        self.publications = Publications(self.index, self.policy)
        observer = SessionObserver(
            on_renamed=self._changed,
            on_status=self._notify_watchers,
            on_suspended=self._suspended,
            on_busy=self.busy.note,
            on_run=events.on_run,
            changed=self.list.changed,
        )
        self._factory = SessionFactory(route, services, upstream, observer, recorder)
        self.complete = self._factory.complete
        self.make_unlisted = self._factory.make_unlisted
        self._unopened = UnopenedSessions()
        self.watchers: list[Callable[[Session], None]] = []
        """Functions that are called with each session that is new, has changed or is over."""
        self.on_suspended: list[Callable[[Session], None]] = []
        """Functions that are called with each session that was not used for `session_ttl`, before it is forgotten."""

    def change_route(self, route: Route, services: Services) -> None:
        self.route = route
        self.services = services
        self.policy.change_route(route)
        self._factory.change_route(route, services)

    def make(
        self,
        id: str,
        connect: Callable[[Session], Backend],
        *,
        name: str = "",
        ids: Ext | None = None,
        principal: str | None = None,
    ) -> Session:
        """Return a new session that lives here. `connect` makes its backend, which is dialled when it is needed.

        `principal` is the user who asks for it, None if the backend announces it. Raise Refused if a limit is reached.
        After `session_ttl` without a client or a turn the session is forgotten. A session that a listener keeps only
        closes its connection then.
        """
        if principal is not None:
            self.quota.check(principal)
        session = self._factory.make(id, connect, name=name, ids=ids, owner=self.past.owner_of(id))
        self._add(session)
        session.presence.await_client()
        return session

    def make_unopened(self, link: Link, connect: Callable[[Session], Backend], resumed: str = "") -> Session:
        """Return a new session, which gets the id of its backend, and is listed, once that has opened it for `link`.

        `resumed` is the backend's name of the session that the client resumes (docs/translation.md, rule 3.1).
        """
        self.quota.check(link.principal, len(self._unopened.sessions_of(link)))
        session = self._factory.make_unopened(connect)
        session.state.owner = link.principal
        self.quota.note_owner(session.state)
        self._unopened.add(session, link, resumed and canonical_id(self.route.name, resumed))
        return session

    def _changed(self, session: Session, name: str, is_first: bool) -> Session:
        """Name, list or drop a session that its backend opened or refused, unless it was dropped meanwhile."""
        if not name:
            self.drop(session)
        elif session in self._unopened:
            self.services.queue.spend(OPEN)  # so that answers of many backends do not fill one step
            return self._opened(session, name)
        elif session in self.index:
            own = canonical_id(self.route.name, name)
            known = self.index.find_session(own)
            if known not in (None, session) and _may_join(self, session, known):
                join_session(self, session, known)
                return known
            if known is None and is_first and self.upstream.session_ref is None:  # else a shared connection has its id
                self.rename_session(session, own)
            else:
                self._add(session)
        return session

    def _opened(self, session: Session, name: str) -> Session:
        """Name and list a session that its backend has opened. If its id is in use, move its clients there."""
        own = canonical_id(self.route.name, name)
        known, link = self.index.find_session(own), self._unopened.client(session)
        if known is not None or not self._unopened.is_wanted(session, own):
            self.services.schedule(0, lambda: self.drop(session))  # after its events have been delivered
            if known is not None and self.policy.sees(link.principal, known.state):
                if chosen := self._unopened.chosen_name(session):
                    self.index.add_name(known, chosen)
                return known
            session.commands.give_all(object, Failure(cause="not_found", text="session not found"))
            return session
        self._unopened.remove(session)
        self.rename_session(session, own)
        session.presence.await_client()
        return session

    def rename_session(self, session: Session, own: str) -> None:
        """List a session under its backend's id, and replace the provisional id everywhere.

        If it is listed under its provisional id, that id is announced as gone, but still accepted.
        """
        former = list[str]()
        if session in self.index:
            former = self.index.names(session)
            log.info("session id changed", session=own, former=session.state.id)
            self.index.drop(session)
            self.announce(session)
        provisional = session.state.id
        session.presence.rename(own)
        self.list.forget(provisional)
        self.quota.forget(provisional)
        self.services.ledger.move_session(provisional, own)
        if self._recorder is not None:
            self._recorder.name_session(provisional, session.state)
        self._add(session)
        for name in former:
            self.index.add_name(session, name)

    def gone(self, link: Link) -> None:
        """Detach a client that has left. Drop its sessions that were never used, or that the backend has not opened."""
        for session in self._unopened.sessions_of(link):
            self.drop(session)
        for session in self.index.live_sessions(link.sessions):
            self.leave(link, session)

    def leave(self, link: Link, session: Session) -> None:
        """Detach a client that has left from a session. Drop the session if it was never used."""
        session.presence.detach(link)
        if session.presence.vacant and not self.listener_sessions.is_reachable(session):
            self.drop(session)

    def _suspended(self, session: Session) -> None:
        for act in self.on_suspended:
            act(session)
        end = self.announce if self.listener_sessions.is_lasting(session) else self.drop
        end(session)

    def choose(self, link: Link, session: Session, name: str) -> None:
        """Show `session` to clients of the link's dialect under the id `name`, which one of them chose to open it.

        Only the first chosen id is shown, because its client waits for it. Later ones are accepted, too.
        """
        if not name or link.dialect.session_ref is None:
            return
        if session.state.chosen_ids is not None:
            self.index.add_name(session, name)
            return
        session.describe(SessionClosed)  # under the id that subscribers were shown before
        self.publications.detach_session(session)  # `_add` shows them the session and its open turn under the new one
        session.state.chosen_ids = link.dialect.session_ref(name)
        if session in self.index:
            self._add(session)
        elif session in self._unopened:
            self._unopened.choose(session, link.dialect.name, name)

    def in_use(self, link: Link, name: str) -> bool:
        """Return True if a live session, or one that waits for its backend, has this name."""
        known = (name, canonical_id(self.route.name, name))
        return any(map(self.index.find_session, known)) or self._unopened.is_chosen(link.dialect.name, name)

    async def stop(self) -> None:
        """Stop every session, because the gateway or the route ends."""
        await _stop_in_slices(lambda: (*self.index, *self._unopened))

    def drop(self, session: Session) -> None:
        """Stop a session, and remove it from all tables."""
        if session in self._unopened:
            self._unopened.remove(session)
            self._end(session)
        elif session in self.index:
            self._end(session)
            if not self.policy.shared:
                self.past.note_owner(self.index.names(session), session.state.owner)
            self.index.drop(session)
            self.listener_sessions.remove_session(session)
            self.announce(session)

    def _end(self, session: Session) -> None:
        """Stop a session and close its recording. Its losses stay in the ledger."""
        session.stop()
        own = session.state.id
        self.list.forget(own)
        self.quota.forget(own)
        self.busy.note(session, False)  # the observer of the session is not called any more
        self.services.ledger.move_session(own, "")
        if self._recorder is not None:
            self._recorder.end_session(own)

    def is_foreign(self, link: Link, name: str) -> bool:
        """Return True if the session with this name is known to belong to another principal than the client's."""
        if (known := self.index.find_session(name)) is not None:
            return not self.policy.sees(link.principal, known.state)
        return self.past.has_other_owner(name, link.principal)

    def _add(self, session: Session) -> None:
        self.index.add(session)
        self.announce(session)
        self.publications.update_session(session)

    def announce(self, session: Session) -> None:
        if session in self.index:
            self.list.changed.add(session.state.id)
            self.quota.note_owner(session.state)
            if not self.policy.shared:
                self.past.note_owner(self.index.names(session), session.state.owner)
        self.publications.note_session(session)
        self._notify_watchers(session)

    def _notify_watchers(self, session: Session) -> None:
        for watcher in self.watchers:
            watcher(session)

    def claim(self, link: Link, session: Session) -> None:
        if not session.state.owner:
            session.state.owner = link.principal
            self.publications.update_session(session)
            self.announce(session)

    def assign_listener(self, ingress: Ingress, session: Session) -> None:
        """Attach all further clients of the listener `ingress` to this session."""
        self.listener_sessions.assign(ingress, session)
        self.announce(session)


def replace_session(sessions: Sessions, session: Session) -> None:
    """Drop a session, and attach its clients to the session that their listener now has."""
    left = [link for link in session.presence.clients if isinstance(link, Link) and link.dialect.single_session]
    for link in left:
        session.presence.detach(link)
    sessions.drop(session)
    for link in left:
        if link.ingress.about_pods is not None and link.ingress.session not in ("", NEW, LATEST):
            link.end(CloseReason.GOING_AWAY, "its session is over")  # its folder is gone too
        else:
            sessions.enter(link)


def _may_join(sessions: Sessions, session: Session, other: Session) -> bool:
    """Return True if a session may join another one of its name: their connection is the same, and so are the owners.

    If each has its own connection, each gets the whole conversation.
    """
    return sessions.upstream.session_ref is not None and sessions.policy.sees(session.state.owner, other.state)


def join_session(sessions: Sessions, session: Session, other: Session) -> None:
    """Move the clients, names and waiting commands of a session to another session."""
    links, waiting = session.presence.clients, session.in_flight.take_all()
    session.state.backend_ids = None  # only the other one has the backend's session
    sessions.listener_sessions.move(session, other)
    sessions.index.move_names(session, other)
    sessions.services.schedule(0, lambda: sessions.drop(session))  # after they got its events
    for link in links:
        session.presence.detach(link)
        other.presence.enter(link)
    for client, command in waiting:
        other.commands.act(client, command)


async def _stop_in_slices(living: Callable[[], tuple[Session, ...]]) -> None:
    """Stop all sessions, including those that are created meanwhile, a few in each step of the event loop."""
    stopped = set[Session]()
    while left := [session for session in living() if session not in stopped]:
        for first in range(0, len(left), STOPPED_AT_ONCE):
            for session in left[first : first + STOPPED_AT_ONCE]:
                session.stop()
            await asyncio.sleep(0)
        stopped.update(left)
