"""The sessions of one route: made with their ways to the backend, found behind doors, dropped
(docs/design.md, section 5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import TypeVar

from msgspec import structs

from dragoman.adapters.base import CloseReason
from dragoman.gateway.config.model import Route
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.link import Link
from dragoman.gateway.pods.live import Pod, Pods
from dragoman.gateway.pods.sessions import PodSessions
from dragoman.gateway.recording.recorder import Recorder
from dragoman.gateway.recording.track import Track
from dragoman.gateway.routing.door import LATEST, NEW, Door
from dragoman.gateway.routing.ids import agent_id, canonical_id, session_id
from dragoman.gateway.routing.paging import Pager
from dragoman.gateway.routing.policy import Policy
from dragoman.gateway.routing.recall import Recall
from dragoman.gateway.routing.roster import Roster
from dragoman.gateway.routing.shared_sessions import SharedSessions
from dragoman.gateway.routing.stored import Stored
from dragoman.gateway.services import Services
from dragoman.gateway.session.session import Session
from dragoman.gateway.upstream import Backend, Connected, Upstream
from dragoman.mappings.canonical import Event, SessionState
from dragoman.mappings.canonical.commands import DeleteSession, ListSessions, OpenSession, ResumeSession
from dragoman.mappings.canonical.values import Backend as About
from dragoman.mappings.canonical.values import Ext, Failure, SessionSummary
from dragoman.mappings.dialect import Dialect
from dragoman.mappings.errors import ConfigError

__all__ = ["MakeBackend", "Sessions"]

FORGOTTEN_MAX = 10_000
"""Names of deleted sessions that are remembered, of which each session has two or three."""

MakeBackend = Callable[[Connected, Endpoint], Backend]
"""Makes the way to the backend at an endpoint, for the session that will hear of it."""

Opening = TypeVar("Opening", bound=OpenSession | ResumeSession)


class Sessions:
    """Those that live now.

    `upstream` is the dialect of their backend. `pods` finds those of an upstream that is a directory of pods, `many`
    those of one connection that carries many, `only` is that of a backend which holds no other. `opens` says that the
    backend opens them, `keeps` that it may have conversations that are not open here: one that is played has none.
    """

    def __init__(
        self, route: Route, make_backend: MakeBackend, services: Services, *, pods: Pods | None = None,
        upstream: Dialect | None = None, recorder: Recorder | None = None, keeps: bool = True,
    ) -> None:  # fmt: skip
        self._recorder = recorder
        self._route = route
        self._services = services
        self.roster = Roster(services.dialects)
        self._unopened: dict[str, tuple[Session, Link]] = {}  # by provisional id, with the client that waits for each
        self._doors: dict[str, Session] = {}
        self._forgotten: dict[str, None] = {}  # names of sessions that were deleted here alone, the oldest first
        self._made_up: set[str] = set()  # sessions for a listener whose backend had none
        self._make_backend = make_backend
        self.upstream = upstream or services.dialects()[route.upstream.dialect]
        self.opens = not self.upstream.one_session  # its backend opens conversations
        self.policy = Policy(route, holds_one=not self.opens)
        self.pods: PodSessions | None = None
        self.many: SharedSessions | None = None
        self._publications: list[Link] = []
        self.only: Session | None = None  # the one session of a backend that holds no other
        self._control: Session | None = None
        self._stored: Stored | None = None
        self.keeps = keeps and self.opens and self.upstream.named is None and pods is None
        self.watchers: list[Callable[[Session], None]] = []  # told of each session that is new, changed or over
        self.enter: Callable[[Link], None] = lambda _link: None  # shows a link the session behind its door
        if recorder is not None:
            recorder.named = self._track_of
        if pods is not None:
            self.pods = PodSessions(route.name, pods, self.roster, self.policy, services.dialects, self._make_of_pod)
        elif self.upstream.named is not None:
            self.many = SharedSessions(
                route.name, self.upstream, self.roster, lambda known, ids: self.make(known, ids=ids), self._gone,
                self._news, self._follow_newest, services,
            )  # fmt: skip
            dialled = make_backend(self.many.shared, route.upstream)
            if not isinstance(dialled, Upstream):
                raise ConfigError(f"{route.upstream.masked}: a backend of many sessions is dialled, not played")
            self.many.shared.upstream = dialled
        elif not self.opens:
            self.only = self.make(session_id(route.name, str(route.upstream)))

    def _track_of(self, name: str) -> Track | None:
        """The recording of the session that the backend calls so."""
        session = self.roster.named(name)
        return session.delivery.track if session is not None else None

    def _make_of_pod(self, id: str, pod: Pod) -> Session:
        session = self.make(id, name=pod.name, at=pod.endpoint)
        session.state.title = pod.name
        session.rested = self._free
        return session

    def _free(self, session: Session) -> None:
        """Give up the ownership of a pod for which nobody came back: the next client may have it."""
        session.state.owner = ""

    def make(
        self, id: str, *, name: str = "", resume: str = "", at: Endpoint | None = None, ids: Ext | None = None
    ) -> Session:
        """A new session with its way to the backend, connected to when it is needed."""
        session = self._session(id, name, ids)
        if self._recorder is not None:
            session.delivery.track = self._recorder.track(session.state)
        if self.many is not None:
            session.backend = self.many.shared.way(session)
            if ids is None:
                session.lobby.open()  # a new conversation: there is nothing to wait for
        elif self.opens:
            self._connect(session, resume)
        else:
            session.backend = self._make_backend(session, at or self._route.upstream)
        session.changed = self._renamed
        session.watch = self.tell
        self._add(session)
        return session

    def make_unopened(self, link: Link) -> Session:
        """Return a new session that gets its id, and is listed, once its backend has opened it for `link`.

        Its id is the backend's own then (docs/translation.md, rule 3.1), so that it is the same after a restart.
        """
        session = self._session(self._services.new_id())
        if self._recorder is not None:
            session.delivery.track = self._recorder.unnamed_track(session.state)
        self.policy.claim(link.principal, session.state)
        self._connect(session, "")
        session.changed = self._opened
        session.watch = self.tell
        self._unopened[session.state.id] = (session, link)
        return session

    def _opened(self, session: Session, name: str) -> Session:
        """Name a session that its backend has opened, or drop it. One that is open already is shown in its place."""
        provisional = session.state.id
        if provisional not in self._unopened:
            return session  # it was dropped meanwhile
        if not name:
            self.drop(session)
            return session
        own = canonical_id(self._route.name, name)
        known, (_, link) = self.roster.named(own), self._unopened[provisional]
        if known is not None:
            self._services.schedule(0, lambda: self.drop(session))  # once what it has to say is said
            if self.policy.sees(link.principal, known.state):
                return known
            session.fail(Failure(cause="not_found", text="session not found"))
            return session
        del self._unopened[provisional]
        session.name(own)
        if self._recorder is not None:
            self._recorder.name_track(provisional, session.state)
        session.changed = self._renamed
        self._add(session)
        return session

    def gone(self, link: Link) -> None:
        """Drop the sessions that only this client has asked for, and the backend has not opened yet."""
        for session, asking in list(self._unopened.values()):
            if asking is link:
                self.drop(session)

    def _session(self, id: str, name: str = "", ids: Ext | None = None) -> Session:
        opening = self.complete(OpenSession())
        about = About(name=name or _pod_name(self._route))
        state = SessionState(
            id=id, owner="", opened_at=self._services.clock(), opening=opening, backend=about, backend_ids=ids
        )  # fmt: skip
        return Session(state, self._route, self.upstream, self._services)

    def choose(self, link: Link, session: Session, name: str) -> None:
        """Show `session` to clients of this dialect under the id by which one of them opens it.

        The first id stays what they are shown, because whoever chose it waits for it. Every later one is accepted, too.
        """
        if not name or link.dialect.named is None:
            return
        if session.state.chosen_ids is not None:
            self.roster.add_name(session, name)
            return
        session.state.chosen_ids = link.dialect.named(name)
        if session in self.roster:
            self._add(session)

    def in_use(self, link: Link, name: str) -> bool:
        """Return whether a session that lives, or waits for its backend, has this name already."""
        known = (name, canonical_id(self._route.name, name))
        ids = link.dialect.named(name) if link.dialect.named is not None else None
        waiting = any(session.state.chosen_ids == ids for session, _link in self._unopened.values())
        return any(map(self.roster.named, known)) or (ids is not None and waiting)

    def complete(self, command: Opening) -> Opening:
        """With what a client could not say: the route says who answers and who asks (docs/design.md, section 5)."""
        agent = command.agent or self._route.upstream.option("agent") or agent_id(self._route.name)
        user = command.user_name or self._route.upstream.option("user")
        if isinstance(command, OpenSession):
            model = command.model or self._route.upstream.option("model")
            cwd = command.cwd or self._route.upstream.option("cwd")
            command = structs.replace(command, model=model, cwd=cwd)
        return structs.replace(command, agent=agent, user_name=user)

    def _connect(self, session: Session, resume: str) -> None:
        recall = Recall(
            session, self._services, resume=resume, taken=lambda conversation: self._merged(session, conversation),
        )  # fmt: skip
        recall.backend = pager = Pager(recall, self._services)
        pager.backend = self._make_backend(pager, self._route.upstream)
        session.backend = recall
        if not resume:
            session.lobby.open()  # a new conversation: there is nothing to wait for

    def _merged(self, session: Session, conversation: str) -> bool:
        """The conversation that `session` is about to resume is open already: its clients go there."""
        other = self.roster.named(conversation)
        if other is None or other is session:
            return False
        links = session.lobby.waiting + [a.link for a in session.delivery.attachments.values()]
        self._doors = {door: other if known is session else known for door, known in self._doors.items()}
        self._services.schedule(0, lambda: self.drop(session))  # once what it has to say to them is said
        for link in links:
            session.detach(link)
            other.lobby.enter(link)
        return True

    @property
    def control(self) -> Session:
        """Whose backend is asked what concerns no session, a child of its own (docs/design.md, section 6); nobody
        attaches.

        Made when it is first needed.
        """
        if self._control is None:
            self._control = control = self._session(self._services.new_id())
            self._stored = stored = Stored(self._route.name, control, self._services)
            stored.backend = self._make_backend(stored, self._route.upstream)
            control.backend = stored
        return self._control

    @property
    def stored(self) -> Stored | None:
        """The backend's store; None where it has none that could be listed, or what it has may be somebody's."""
        if not self.keeps or not self.policy.shared or not self.upstream.commands.can_say(ListSessions):
            return None
        _ = self.control
        return self._stored

    def listed(self, name: str) -> SessionSummary | None:
        """The conversation of the backend's store that a client knows by this name, if a list told of it."""
        return self._stored.named(name) if self._stored is not None else None

    def stop(self) -> None:
        """The gateway ends."""
        if self._control is not None:
            self._control.stop()
        for session in (*self.roster, *(session for session, _link in self._unopened.values())):
            session.stop()
        if self.many is not None:
            self.many.close()

    def _renamed(self, session: Session, name: str) -> Session:
        """List a session under the further ids that its backend gave it, or drop it if the backend refused it."""
        if name:
            self._add(session)
        else:
            self.drop(session)
        return session

    def forget(self, names: Iterable[str]) -> None:
        """Show the sessions of these names to nobody any more: a client deleted them, and their backend keeps them."""
        self._forgotten |= dict.fromkeys(names)
        for oldest in list(self._forgotten)[:-FORGOTTEN_MAX]:
            del self._forgotten[oldest]

    def forgot(self, name: str) -> bool:
        """Return whether a client deleted the session that is called so."""
        return name in self._forgotten or canonical_id(self._route.name, name) in self._forgotten

    def drop(self, session: Session) -> None:
        """Stop a session and forget it."""
        if self._unopened.pop(session.state.id, None) is not None:
            session.stop()
            if self._recorder is not None:
                self._recorder.over(session.state.id)
        elif session in self.roster:
            session.stop()
            if self._recorder is not None:
                self._recorder.over(session.state.id)
            self.roster.drop(session)
            self._made_up.discard(session.state.id)
            self._doors = {door: known for door, known in self._doors.items() if known is not session}
            self.tell(session)

    def _gone(self, session: Session) -> None:
        """The backend has it no more. Clients that name no session are shown the one that is behind their door now."""
        if session not in self.roster:
            return
        session.answer_all(DeleteSession)
        session.give_up(Failure(cause="upstream_lost", text="the backend does not have this session any more"))
        self._move_on(session)

    def _move_on(self, session: Session) -> None:
        """Drop a session and show its clients the one that is behind their listener now."""
        left = [link for link in (*session.lobby.waiting, *session.attendance.links) if link.dialect.one_session]
        for link in left:
            session.detach(link)
        self.drop(session)
        for link in left:
            if link.door.directory is not None and link.door.session not in ("", NEW, LATEST):
                link.end(CloseReason.GOING_AWAY, "its session is over")  # and so is the folder by which it came
            else:
                self.enter(link)

    def _follow_newest(self) -> None:
        """Show listeners that wait for a session of the backend its newest: it has one now."""
        newest = self.many.newest() if self.many is not None else None
        if newest is None:
            return
        for session in {session.state.id: session for session in self._doors.values()}.values():
            unused = session.state.backend_ids is None and not session.in_flight
            seen = all(self.policy.sees(link.principal, newest.state) for link in session.attendance.links)
            if session.state.id in self._made_up and unused and seen:
                self._move_on(session)

    def _add(self, session: Session) -> None:
        self.roster.add(session)
        self.tell(session)
        for link in self._publications:
            self._publish(link, session)

    def publish(self, link: Link) -> None:
        """`link` is told of everything from now on."""
        self._publications.append(link)
        for session in self.roster:
            self._publish(link, session)

    def unpublish(self, link: Link) -> None:
        """`link` is gone."""
        self._publications.remove(link)

    def _news(self, event: Event) -> None:
        for link in self._publications:
            link.send([event])

    def _publish(self, link: Link, session: Session) -> None:
        """Everybody who subscribes is told of sessions that are everybody's, once the backend has opened them."""
        shown = self._publishes(session)
        if shown and link.id not in session.delivery.attachments:
            session.attach(link)
        elif not shown:
            session.detach(link)

    def _publishes(self, session: Session) -> bool:
        opened = session.state.backend_ids is not None or not self.opens
        return opened and self.policy.publishes(session.state)

    @property
    def published(self) -> int:
        """How many sessions everybody who subscribes is told of."""
        return sum(map(self._publishes, self.roster))

    def tell(self, session: Session) -> None:
        for watcher in self.watchers:
            watcher(session)

    def claim(self, link: Link, session: Session) -> None:
        if not session.state.owner:
            self.policy.claim(link.principal, session.state)
            for publication in self._publications:
                self._publish(publication, session)
            self.tell(session)

    def behind(self, door: Door) -> Session | None:
        """The one session that all clients of `door` share; None if its backend has none for it now."""
        known = self._doors.get(door.endpoint)
        if known is not None:
            return known
        session = self.only or self._entered(door)
        if session is not None:
            self._doors[door.endpoint] = session
            self.tell(session)
        return session

    def known(self, door: Door) -> Session | None:
        """The session of this door, if anybody came by it yet."""
        return self._doors.get(door.endpoint)

    @property
    def kept(self) -> set[str]:
        """The ids of the sessions to which a door leads."""
        return {session.state.id for session in self._doors.values()}

    def _entered(self, door: Door) -> Session | None:
        """The session of a door by which nobody came before."""
        known = self.roster.named(door.session)
        if known is not None:
            return known
        if self.pods is not None:
            return self.pods.entered(door.session)
        if self.many is not None and door.session in ("", LATEST) and (newest := self.many.newest()) is not None:
            return newest
        wanted = "" if door.session == NEW else door.session
        known_id = canonical_id(self._route.name, wanted) if wanted not in ("", LATEST) else self._services.new_id()
        if self.many is not None and door.session in ("", LATEST):
            self._made_up.add(known_id)
        return self.make(known_id, resume=wanted)


def _pod_name(route: Route) -> str:
    """The name under which pod clients know the session: the folder of its socket (docs/dialects/pod.md, section 2)."""
    for endpoint in route.listen:
        if endpoint.transport == "name":
            return endpoint.address
        if endpoint.transport == "unix":
            path = PurePath(endpoint.address)
            return path.parent.name if path.name == "sock" else path.stem
    return ""
