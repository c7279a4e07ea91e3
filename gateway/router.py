"""Which session: brings each command of a downstream link to the session that it means (design.md, section 5).

One router a route. It answers what needs no session (ping, lists), opens and finds sessions, and attaches links to
them. A client that names no session means the one behind the door by which it came. A foreign session is answered
exactly like an unknown one (policy.py).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath

from adapters.base import CloseReason
from gateway.config import Limits, Route
from gateway.door import LATEST, NEW, Door
from gateway.endpoint import Endpoint
from gateway.history import summary
from gateway.ids import agent_id, canonical_id, session_id
from gateway.ledger import Ledger
from gateway.link import Link
from gateway.pod_sessions import PodSessions
from gateway.pods import Pod, Pods
from gateway.policy import Policy
from gateway.recall import Recall
from gateway.roster import Roster, listing
from gateway.session import Session
from gateway.timers import Later
from gateway.upstream import Backend, Connected
from mappings.canonical import Command, SessionState
from mappings.canonical.commands import (
    AnswerApproval,
    AnswerInteraction,
    AnswerOtp,
    GetSession,
    ListSessions,
    OpenSession,
    Ping,
    ResumeSession,
    ShutdownBackend,
)
from mappings.canonical.events import Pong, Reply, SessionOpened, SessionsListed
from mappings.canonical.unmapped import Unmapped
from mappings.canonical.values import Backend as About
from mappings.canonical.values import Failure
from mappings.dialect import Burst, Clock, Dialect, NewId
from mappings.errors import PeerError

__all__ = ["MakeBackend", "Router", "session_id"]

MakeBackend = Callable[[Connected, Endpoint], Backend]
"""Makes the way to the backend at an endpoint, for the session that will hear of it."""


class Router:
    """The sessions of one route. `pods` are those of an upstream that is a directory of pods."""

    def __init__(
        self, route: Route, make_backend: MakeBackend, dialects: Callable[[], dict[str, Dialect]], *,
        limits: Limits, ledger: Ledger, clock: Clock, new_id: NewId, later: Later, pods: Pods | None = None,
    ) -> None:  # fmt: skip
        self._route = route
        self._clock = clock
        self._roster = Roster(dialects)
        self._doors: dict[str, Session] = {}
        self._make_backend = make_backend
        self._limits = limits
        self._ledger = ledger
        self._new_id = new_id
        self._later = later
        self._upstream = dialects()[route.upstream.dialect]
        self._opens = not self._upstream.one_session  # its backend opens conversations
        self._policy = Policy(route, holds_one=not self._opens)
        self._pods: PodSessions | None = None
        self._only: Session | None = None  # the one session of a backend that holds no other
        self.watchers: list[Callable[[Session], None]] = []  # told of each session that is new, changed or over
        self.on_shutdown: Callable[[Link], None] = lambda _link: None  # a client said `shutdown`
        if pods is not None:
            self._pods = PodSessions(route.name, pods, self._roster, self._policy, dialects, self._make_of_pod)
        elif not self._opens:
            self._only = self._make(session_id(route.name, str(route.upstream)))

    def _make_of_pod(self, id: str, pod: Pod) -> Session:
        session = self._make(id, name=pod.name, at=pod.endpoint)
        session.state.title = pod.name
        return session

    def _make(self, id: str, *, name: str = "", resume: str = "", at: Endpoint | None = None) -> Session:
        """A new session with its way to the backend, connected to when it is needed."""
        agent = self._route.upstream.option("agent") or agent_id(self._route.name)
        opening = OpenSession(agent=agent, user_name=self._route.upstream.option("user"))
        about = About(name=name or _pod_name(self._route))
        session = Session(
            SessionState(id=id, owner="", opened_at=self._clock(), opening=opening, backend=about),
            route=self._route, upstream=self._upstream, limits=self._limits, ledger=self._ledger, clock=self._clock,
            new_id=self._new_id, later=self._later,
        )  # fmt: skip
        if self._opens:
            self._connect(session, resume)
        else:
            session.backend = self._make_backend(session, at or self._route.upstream)
        session.changed = self._renamed
        session.watch = self._tell
        self._add(session)
        return session

    def _connect(self, session: Session, resume: str) -> None:
        recall = Recall(
            session, limits=self._limits, ledger=self._ledger, new_id=self._new_id, later=self._later, resume=resume,
            taken=lambda conversation: self._merged(session, conversation),
        )  # fmt: skip
        recall.backend = self._make_backend(recall, self._route.upstream)
        session.backend = recall
        if not resume:
            session.lobby.open()  # a new conversation: there is nothing to wait for

    def _merged(self, session: Session, conversation: str) -> bool:
        """The conversation that `session` is about to resume is open already: its clients go there."""
        other = self._roster.named(conversation)
        if other is None or other is session:
            return False
        links = session.lobby.waiting + [a.link for a in session.delivery.attachments.values()]
        self._doors = {door: other if known is session else known for door, known in self._doors.items()}
        self._later(0, lambda: self._drop(session))  # once what it has to say to them is said
        for link in links:
            session.detach(link)
            other.lobby.enter(link)
        return True

    def _renamed(self, session: Session) -> None:
        """The backend gave the session its ids, or would not open it."""
        if session.state.backend_ids is None:
            self._drop(session)
        else:
            self._add(session)

    def _drop(self, session: Session) -> None:
        if session in self._roster:
            session.stop()
            self._roster.drop(session)
            self._doors = {door: known for door, known in self._doors.items() if known is not session}
            self._tell(session)

    def _add(self, session: Session) -> None:
        self._roster.add(session)
        self._tell(session)

    def _tell(self, session: Session) -> None:
        if session.resting and self._pods is not None:
            session.state.owner = ""  # nobody came back for it: the pod is free
        for watcher in self.watchers:
            watcher(session)

    @property
    def sessions(self) -> list[Session]:
        """All sessions of the route."""
        return list(self._roster)

    # -- links -----------------------------------------------------------------------------------------

    def connected(self, link: Link) -> None:
        """A peer connected. A dialect whose backends hold one session shows the one behind the link's door at once."""
        link.open()
        if not link.dialect.one_session:
            return
        session = self._behind(link.door)
        if session is None or not self._policy.sees(link.principal, session.state):
            link.send([Reply(request="", failure=Failure(cause="not_found", text="there is no session here for you"))])
            link.end(CloseReason.DONE)
            return
        self._claim(link, session)
        session.backend.start()
        session.lobby.enter(link)

    def _claim(self, link: Link, session: Session) -> None:
        if not session.state.owner:
            self._policy.claim(link.principal, session.state)
            self._tell(session)

    def _behind(self, door: Door) -> Session | None:
        """The one session that all clients of `door` share; None if its backend has none for it now."""
        known = self._doors.get(door.endpoint)
        if known is not None:
            return known
        session = self._only or self._entered(door)
        if session is not None:
            self._doors[door.endpoint] = session
            self._tell(session)
        return session

    def behind(self, door: Door) -> Session | None:
        """The session of this door, if anybody came by it yet."""
        return self._doors.get(door.endpoint)

    def _entered(self, door: Door) -> Session | None:
        """The session of a door by which nobody came before."""
        known = self._roster.named(door.session)
        if known is not None:
            return known
        if self._pods is not None:
            return self._pods.entered(door.session)
        wanted = "" if door.session == NEW else door.session
        known_id = canonical_id(self._route.name, wanted) if wanted not in ("", LATEST) else self._new_id()
        return self._make(known_id, resume=wanted)

    def gone(self, link: Link) -> None:
        """A peer went away. A session that nobody used is over, unless a door leads to it."""
        kept = {session.state.id for session in self._doors.values()}
        for session in self._roster:
            session.detach(link)
            if session.vacant and session is not self._only and session.state.id not in kept:
                self._drop(session)

    def drained(self, link: Link) -> None:
        """A peer has read everything."""
        for session in self._roster:
            session.delivery.drained(link)

    def receive(self, link: Link, bursts: list[Burst]) -> None:
        """A peer said this. One that speaks before it was shown anything is shown what there is."""
        if link.dialect.one_session and (own := self._doors.get(link.door.endpoint)) is not None:
            own.lobby.admit(link)
        for burst in bursts:
            for command in burst.items:
                self._command(link, command)

    # -- commands --------------------------------------------------------------------------------------

    def _command(self, link: Link, command: Command) -> None:
        match command:
            case Ping():
                link.send([Pong(request=command.request, at=self._clock())])
            case ListSessions() | GetSession() | ResumeSession() if link.dialect.one_session:
                self._describe(link, command)
            case ListSessions() if self._pods is not None:
                self._ask_pods(self._pods.all(), lambda: link.send([self._list(link, command)]))
            case ListSessions():
                link.send([self._list(link, command)])
            case OpenSession():
                self._open(link, command)
            case ResumeSession():
                session = self._find(link, command.session)
                if session is not None:
                    self._show(link, session, command.request, command.agent)
                else:
                    self._open(link, command)
            case GetSession():
                self._get(link, command)
            case Unmapped():
                failure = Failure(cause="unsupported", text=f"unknown: {command.tag}")
                link.send([Reply(request=command.request, failure=failure)])
            case _:
                self._act(link, command)

    def _act(self, link: Link, command: Command) -> None:
        session = self._find(link, command.session)
        answers = isinstance(command, AnswerApproval | AnswerOtp | AnswerInteraction)
        if session is None or (answers and not self._policy.answers(link.principal, session.state)):
            self._not_found(link, command)
            return
        if link.id not in session.delivery.attachments:  # any action that names a session attaches
            self._claim(link, session)
            session.attach(link)
        session.command(link, command)
        if isinstance(command, ShutdownBackend):
            self.on_shutdown(link)

    def _describe(self, link: Link, command: ListSessions | GetSession | ResumeSession) -> None:
        """A client that is shown one session knows of no other, unless its door stands beside theirs."""
        own = self._doors.get(link.door.endpoint)
        if own is not None and link.door.directory is not None:
            link.send([link.door.directory.answer(command, own)])
        elif own is not None and isinstance(command, ListSessions):
            link.send([SessionsListed(request=command.request, sessions=(summary(own.state),))])
        elif own is not None and command.session in ("", own.state.id):
            self._show(link, own, command.request, "")
        else:
            self._not_found(link, command)

    def _list(self, link: Link, command: ListSessions) -> SessionsListed | Reply:
        seen = (summary(s.state) for s in self._roster if self._policy.sees(link.principal, s.state))
        try:
            return listing(seen, command)
        except PeerError as fault:
            return Reply(request=command.request, failure=Failure(cause="invalid", text=fault.text))

    def _ask_pods(self, sessions: list[Session], then: Callable[[], None]) -> None:
        """What a pod is about it tells whoever connects: ask those to which no session is connected, then go on."""
        asked = [session for session in sessions if not session.state.owner]
        for session in asked:
            session.backend.start()

        def told() -> None:
            for session in asked:
                if not session.state.owner:  # nobody opened it meanwhile
                    session.backend.rest()
            then()

        if asked:
            self._later(self._limits.snapshot_wait, told)
        else:
            then()

    def _open(self, link: Link, command: OpenSession | ResumeSession) -> None:
        """A backend that holds one session gives that one to its owner and is busy for everybody else."""
        if self._opens:
            self._ask_backend(link, command)
            return
        session = self._only or (self._pods.opened(command, link.principal) if self._pods is not None else None)
        if session is None or not self._policy.opens(link.principal, session.state):
            text = "no pod is free" if self._pods else "the backend holds one session, and it is somebody else's"
            link.send([Reply(request=command.request, failure=Failure(cause="busy", text=text))])
            return
        if command.agent:
            session.state.agent = command.agent
        self._show(link, session, command.request, command.agent)

    def _ask_backend(self, link: Link, command: OpenSession | ResumeSession | GetSession) -> None:
        """A backend that opens conversations is asked for this one, under a session of its own."""
        session = self._make(self._new_id())
        self._claim(link, session)
        session.open(link, command)

    def _get(self, link: Link, command: GetSession) -> None:
        session = self._find(link, command.session)
        if session is not None:
            self._show(link, session, command.request, "")
        elif not self._opens or self._roster.named(command.session) is not None:  # a foreign one is as unknown as any
            self._not_found(link, command)
        else:
            self._ask_backend(link, command)

    def _show(self, link: Link, session: Session, request: str, agent: str) -> None:
        state = session.state
        if link.id in session.delivery.attachments:
            opened = SessionOpened(
                request=request, session=state.id, agent=agent or state.agent, title=state.title, status=state.status,
                ext=state.backend_ids,
            )  # fmt: skip
            link.send([opened])
        else:
            self._claim(link, session)
            session.attach(link, request)

    def _find(self, link: Link, name: str) -> Session | None:
        """The session that `link` calls `name`, or its own for ""; None if there is none that it may see."""
        if not name:
            mine = [session for session in self._roster if link.id in session.delivery.attachments]
            return mine[0] if len(mine) == 1 else None
        session = self._roster.named(name)
        if session is None and self._pods is not None:
            session = self._pods.named(name)
        return session if session is not None and self._policy.sees(link.principal, session.state) else None

    def _not_found(self, link: Link, command: Command) -> None:
        failure = Failure(cause="not_found", text=f"session {command.session!r} not found")
        link.send([Reply(request=command.request, failure=failure)])


def _pod_name(route: Route) -> str:
    """The name under which pod clients know the session: the folder of its socket (pod sheet, section 2)."""
    for endpoint in route.listen:
        if endpoint.transport == "name":
            return endpoint.address
        if endpoint.transport == "unix":
            path = PurePath(endpoint.address)
            return path.parent.name if path.name == "sock" else path.stem
    return ""
