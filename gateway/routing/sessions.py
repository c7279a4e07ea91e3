"""The sessions of one route: made, named, published, found behind listeners, dropped (docs/design.md, section 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, structs

from dragoman.adapters.base import CloseReason
from dragoman.gateway.config.model import Route
from dragoman.gateway.ingress import LATEST, NEW, Ingress
from dragoman.gateway.link import Link
from dragoman.gateway.routing.busy import BusySessions
from dragoman.gateway.routing.ids import agent_id, canonical_id
from dragoman.gateway.routing.policy import Policy
from dragoman.gateway.routing.quota import SessionQuota
from dragoman.gateway.routing.session_index import SessionIndex
from dragoman.gateway.routing.session_list import SessionList
from dragoman.gateway.routing.unopened import UnopenedSessions
from dragoman.gateway.services import Services
from dragoman.gateway.session.ports import Backend
from dragoman.gateway.session.runs import Run
from dragoman.gateway.session.session import Session, SessionObserver
from dragoman.mappings.bounded import remember
from dragoman.mappings.canonical import Event, SessionState
from dragoman.mappings.canonical.commands import OpenSession, ResumeSession
from dragoman.mappings.canonical.values import BackendInfo, Ext, Failure
from dragoman.mappings.dialect import Dialect

if TYPE_CHECKING:
    from dragoman.gateway.recording.recorder import Recorder, SessionRecorder

__all__ = ["RouteEvents", "Sessions"]

DELETED_MAX = 10_000
"""Names of deleted sessions that are remembered, of which each session has two or three."""

Opening = TypeVar("Opening", bound=OpenSession | ResumeSession)


class RouteEvents(Struct, frozen=True, kw_only=True):
    """Functions of the program that are called when something happens on a route."""

    on_run: Callable[[Session, Run], None] = lambda _session, _run: None
    """A session delivered these events, which are more than text."""
    on_shutdown: Callable[[Link], None] = lambda _link: None
    """A client said `shutdown`."""


class Sessions:
    """The sessions of a route that live now. `upstream` is the dialect of their backend.

    `enter` shows a link the session behind its listener.
    """

    def __init__(
        self,
        route: Route,
        services: Services,
        upstream: Dialect,
        enter: Callable[[Link], None],
        recorder: Recorder | None,
        events: RouteEvents = RouteEvents(),  # noqa: B008  # frozen
    ) -> None:
        self.route = route
        self.services = services
        self.upstream = upstream
        self._enter = enter
        self._recorder = recorder
        self._events = events
        self.index = SessionIndex(services.dialects)
        self.policy = Policy(route, holds_one=upstream.single_session)
        self.list = SessionList(self.index, self.policy, services.queue.budget)
        self.quota = SessionQuota(services)
        self.busy = BusySessions()
        self._unopened = UnopenedSessions()
        self._entered: dict[str, Session] = {}  # by endpoint
        self._entrances: dict[str, list[Ingress]] = {}  # the listeners that lead to a session, by its id
        self._published: set[str] = set()  # ids of sessions that every subscriber is told of
        self._kept: set[str] = set()  # ids of sessions that are never forgotten
        self._owners: dict[str, str] = {}  # names of forgotten sessions -> their owners, the oldest first
        self._deleted: dict[str, None] = {}  # names of sessions that were deleted here alone, the oldest first
        self._publications: list[Link] = []
        self._watchers: list[Callable[[Session], None]] = []

    def change_route(self, route: Route, services: Services) -> None:
        """Make new sessions with these options and limits."""
        self.route = route
        self.services = services
        self.policy.change_route(route)

    def make(
        self,
        id: str,
        connect: Callable[[Session], Backend],
        *,
        name: str = "",
        ids: Ext | None = None,
        on_rested: Callable[[Session], None] = lambda _session: None,
        kept: bool = False,
        principal: str | None = None,
    ) -> Session:
        """Return a new session that lives here. `connect` makes its backend, which is dialled when it is needed.

        `principal` is the user who asks for it, None if the backend announces it. Raise Refused if there is no room.

        If `session_ttl` passes without a client or a turn, `on_rested` is called and the session is forgotten. With
        `kept` it only rests.
        """
        if principal is not None:
            self.quota.check(principal)
        track = self._recorder.track if self._recorder is not None else None
        session = self.create(id, connect, name=name, ids=ids, track=track, on_rested=on_rested)
        if kept:
            self._kept.add(id)
        self._add(session)
        session.presence.await_client()
        return session

    def make_unopened(self, link: Link, connect: Callable[[Session], Backend]) -> Session:
        """Return a new session that gets its id, and is listed, once its backend has opened it for `link`.

        Its id is the backend's own then (docs/translation.md, rule 3.1), so that it is the same after a restart.
        """
        self.quota.check(link.principal)
        track = self._recorder.unnamed_track if self._recorder is not None else None
        session = self.create(self.services.new_id(), connect, track=track)
        self.policy.claim(link.principal, session.state)
        self.quota.note_owner(session.state)
        self._unopened.add(session, link)
        return session

    def _changed(self, session: Session, name: str) -> Session:
        """Name, list or drop a session that its backend opened or refused, unless it was dropped meanwhile."""
        if session in self._unopened:
            return self._opened(session, name)
        return self._renamed(session, name) if session in self.index else session

    def _opened(self, session: Session, name: str) -> Session:
        """Name a session that its backend has opened, or drop it. One that is open already is shown in its place."""
        provisional = session.state.id
        if not name:
            self.drop(session)
            return session
        own = canonical_id(self.route.name, name)
        known, link = self.index.find_session(own), self._unopened.client(session)
        if known is not None:
            self.services.schedule(0, lambda: self.drop(session))  # once what it has to say is said
            if self.policy.sees(link.principal, known.state):
                return known
            session.commands.give_all(object, Failure(cause="not_found", text="session not found"))
            return session
        self._unopened.remove(session)
        session.state.id = own  # clients were told no other
        self.list.forget(provisional)
        self.quota.forget(provisional)
        self.services.ledger.move_session(provisional, own)
        if self._recorder is not None:
            self._recorder.name_track(provisional, session.state)
        self._add(session)
        session.presence.await_client()
        return session

    def gone(self, link: Link) -> None:
        """Detach a client that is gone. Drop the sessions of this client that nobody has used.

        A session that the backend has not opened yet goes with the client that asked for it.
        """
        for session in self._unopened.sessions_of(link):
            self.drop(session)
        for session in self.index.sessions_of(link):
            session.presence.detach(link)
            if (
                session.presence.vacant
                and session.state.id not in self._entrances
                and session.state.id not in self._kept
            ):
                self.drop(session)

    def create(
        self,
        id: str,
        connect: Callable[[Session], Backend],
        *,
        name: str = "",
        ids: Ext | None = None,
        track: Callable[[SessionState], SessionRecorder] | None = None,
        on_rested: Callable[[Session], None] = lambda _session: None,
    ) -> Session:
        """Return a session that is not listed yet, with the backend that `connect` makes."""
        opening = self.complete(OpenSession())
        owner = self._owners.get(id, "")  # of a session that was forgotten
        about = BackendInfo(name=name or _pod_name(self.route))
        state = SessionState(
            id=id,
            owner=owner,
            opened_at=self.services.clock(),
            opening=opening,
            backend=about,
            backend_ids=ids,
        )

        def rested(session: Session) -> None:
            on_rested(session)
            if self._is_kept(session):
                self.tell(session)
            else:
                self.drop(session)

        return Session(
            state,
            self.route,
            self.upstream,
            self.services,
            connect=connect,
            observer=SessionObserver(
                on_renamed=self._changed,
                on_status=self.tell,
                on_rested=rested,
                on_busy=self.busy.note,
                on_run=self._events.on_run,
                changed=self.list.changed,
            ),
            recorder=track(state) if track is not None else None,
        )

    def choose(self, link: Link, session: Session, name: str) -> None:
        """Show `session` to clients of this dialect under the id by which one of them opens it.

        The first id stays what they are shown, because whoever chose it waits for it. Every later one is accepted, too.
        """
        if not name or link.dialect.session_ref is None:
            return
        if session.state.chosen_ids is not None:
            self.index.add_name(session, name)
            return
        session.state.chosen_ids = link.dialect.session_ref(name)
        if session in self.index:
            self._add(session)
        elif session in self._unopened:
            self._unopened.choose(session, link.dialect.name, name)

    def in_use(self, link: Link, name: str) -> bool:
        """Return whether a session that lives, or waits for its backend, has this name already."""
        known = (name, canonical_id(self.route.name, name))
        return any(map(self.index.find_session, known)) or self._unopened.is_chosen(link.dialect.name, name)

    def complete(self, command: Opening) -> Opening:
        """Return the command with the route's agent, user, model and folder, where the client named none."""
        agent = command.agent or self.route.upstream.option("agent") or agent_id(self.route.name)
        user = command.user_name or self.route.upstream.option("user")
        if isinstance(command, OpenSession):
            model = command.model or self.route.upstream.option("model")
            cwd = command.cwd or self.route.upstream.option("cwd")
            command = structs.replace(command, model=model, cwd=cwd)
        return structs.replace(command, agent=agent, user_name=user)

    def merge(self, session: Session, conversation: str) -> bool:
        """Move the clients of `session` to the one that has its conversation open; False if there is none."""
        other = self.index.find_session(conversation)
        if other is None or other is session:
            return False
        links = session.pending.waiting + [a.link for a in session.delivery.attachments.values()]
        for ingress in self._entrances.pop(session.state.id, []):
            self._enter_by(ingress, other)
        self.services.schedule(0, lambda: self.drop(session))  # once what it has to say to them is said
        for link in links:
            session.presence.detach(link)
            other.presence.enter(link)
        return True

    def stop(self) -> None:
        """Stop every session: the gateway ends."""
        for session in (*self.index, *self._unopened):
            session.stop()

    def _renamed(self, session: Session, name: str) -> Session:
        """List a session under the further ids that its backend gave it, or drop it if the backend refused it."""
        if name:
            self._add(session)
        else:
            self.drop(session)
        return session

    def hide(self, names: Iterable[str]) -> None:
        """Show the sessions of these names to nobody any more: a client deleted them, and their backend keeps them."""
        for name in names:
            remember(self._deleted, name, None, DELETED_MAX)

    def is_hidden(self, name: str) -> bool:
        """Return whether a client deleted the session that is called so."""
        return name in self._deleted or canonical_id(self.route.name, name) in self._deleted

    def _is_kept(self, session: Session) -> bool:
        """Return True if a session is never forgotten: its backend has no other, or a listener always leads to it.

        There is at most one such session for each listener.
        """
        entrances = self._entrances.get(session.state.id, ())
        return session.state.id in self._kept or any(ingress.is_lasting for ingress in entrances)

    def drop(self, session: Session) -> None:
        """Stop a session and forget it: it leaves every table."""
        if session in self._unopened:
            self._unopened.remove(session)
            self._stop(session)
        elif session in self.index:
            self._stop(session)
            self._remember_owner(session)
            self.index.drop(session)
            for ingress in self._entrances.pop(session.state.id, ()):
                self._entered.pop(ingress.endpoint, None)
            self._kept.discard(session.state.id)
            self.tell(session)

    def _remember_owner(self, session: Session) -> None:
        if not self.policy.shared and session.state.owner:
            for name in self.index.names(session):
                remember(self._owners, name, session.state.owner, DELETED_MAX)

    def is_foreign(self, link: Link, name: str) -> bool:
        """Return True if a session that the client calls so lives here, or did, and belongs to another principal."""
        known = self.index.find_session(name)
        if known is not None:
            return not self.policy.sees(link.principal, known.state)
        owners = (self._owners.get(one, "") for one in (name, canonical_id(self.route.name, name)))
        return any(owner not in ("", link.principal) for owner in owners)

    def _stop(self, session: Session) -> None:
        session.stop()
        self.list.forget(session.state.id)
        self.quota.forget(session.state.id)
        self.busy.note(session, False)  # as an observer is called
        self.services.ledger.move_session(session.state.id, "")
        if self._recorder is not None:
            self._recorder.over(session.state.id)

    def move_on(self, session: Session) -> None:
        """Drop a session and show its clients the one that is behind their listener now."""
        here = (*session.pending.waiting, *session.presence.links)
        left = [link for link in here if isinstance(link, Link) and link.dialect.single_session]
        for link in left:
            session.presence.detach(link)
        self.drop(session)
        for link in left:
            if link.ingress.directory is not None and link.ingress.session not in ("", NEW, LATEST):
                link.end(CloseReason.GOING_AWAY, "its session is over")  # and so is the folder by which it came
            else:
                self._enter(link)

    def _add(self, session: Session) -> None:
        self.index.add(session)
        self.tell(session)
        for link in self._publications:
            self._publish(link, session)

    def publish(self, link: Link) -> None:
        """Tell `link` of everything that happens from now on."""
        self._publications.append(link)
        for session in self.index:
            self._publish(link, session)

    def unpublish(self, link: Link) -> None:
        """Tell `link` nothing more: it is gone."""
        self._publications.remove(link)

    def publish_event(self, event: Event) -> None:
        """Tell everybody who subscribes of what belongs to no session."""
        for link in self._publications:
            link.send([event])

    def _publish(self, link: Link, session: Session) -> None:
        """Attach a subscriber to a session that is published, or detach it from one that is no more."""
        shown = self._publishes(session)
        if shown and link.id not in session.delivery.attachments:
            session.presence.attach(link)
        elif not shown:
            session.presence.detach(link)

    def _publishes(self, session: Session) -> bool:
        opened = session.state.backend_ids is not None or self.upstream.single_session
        return opened and self.policy.publishes(session.state)

    @property
    def published(self) -> int:
        """Number of sessions that are published to every subscriber."""
        return len(self._published)

    def watch(self, watcher: Callable[[Session], None]) -> None:
        """Call `watcher` with each session that is new, has changed or is over."""
        self._watchers.append(watcher)

    def tell(self, session: Session) -> None:
        """Tell the watchers that a session is new, changed or over."""
        lives = session in self.index
        if lives:
            self.list.changed.add(session.state.id)
            self.quota.note_owner(session.state)
        if lives and self._publishes(session):
            self._published.add(session.state.id)
        else:
            self._published.discard(session.state.id)
        for watcher in self._watchers:
            watcher(session)

    def note_changed(self, id: str) -> None:
        """Note that the session with this id, if it is open here, may have another place in lists."""
        if self.index.live_session(id) is not None:
            self.list.changed.add(id)

    def claim(self, link: Link, session: Session) -> None:
        """Make the principal of `link` the owner of a session that has none."""
        if not session.state.owner:
            self.policy.claim(link.principal, session.state)
            for publication in self._publications:
                self._publish(publication, session)
            self.tell(session)

    def enter_by(self, ingress: Ingress, session: Session) -> None:
        """Let all further clients of `ingress` share this session."""
        self._enter_by(ingress, session)
        self.tell(session)

    def _enter_by(self, ingress: Ingress, session: Session) -> None:
        self._entered[ingress.endpoint] = session
        self._entrances.setdefault(session.state.id, []).append(ingress)

    def known(self, ingress: Ingress) -> Session | None:
        """Return the session that clients of this listener share, if anybody came by it yet."""
        return self._entered.get(ingress.endpoint)


def _pod_name(route: Route) -> str:
    """Return the name that pod clients know: the folder of the socket (docs/dialects/pod.md, section 2)."""
    for endpoint in route.listen:
        if endpoint.dialect != "pod":
            continue
        if endpoint.transport == "name":
            return endpoint.address
        if endpoint.transport == "unix":
            path = PurePath(endpoint.address)
            return path.parent.name if path.name == "sock" else path.stem
    return ""
