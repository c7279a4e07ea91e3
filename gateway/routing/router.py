"""Which session: brings each command of a downstream link to the session that it means (docs/design.md, section 5).

One router a route. It answers what needs no session (ping, lists), opens and finds sessions, and attaches links to
them. A client that names no session means the one behind the door by which it came. A foreign session is answered
exactly like an unknown one (policy.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import structs

from dragoman.adapters.base import CloseReason
from dragoman.gateway.config.model import Route
from dragoman.gateway.link import Link
from dragoman.gateway.pods.live import Pods
from dragoman.gateway.recording.recorder import Recorder
from dragoman.gateway.routing.opening import Openings
from dragoman.gateway.routing.roster import listing
from dragoman.gateway.routing.sessions import MakeBackend, Sessions
from dragoman.gateway.routing.stored import Rows, joined
from dragoman.gateway.services import Services
from dragoman.gateway.session.history import summary
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
from dragoman.mappings.errors import PeerError

__all__ = ["Router"]

OF_THE_BACKEND = (
    GetCapabilities, GetConfig, SetConfig, UnsetConfig, ListConfig, ReloadConfig, ListModels, PromptOnce,
)  # fmt: skip
"""What concerns no session, unless it names one."""

ID_IN_USE = "sqlite3: constraint failed: UNIQUE constraint failed: sessions.id"
"""The words of a real pando, the one dialect whose clients choose ids."""


class Router:
    """Brings commands to the sessions of one route. `on_shutdown` hears of each client that said `shutdown`.

    `upstream` is how the backend behaves, where that is not what its endpoint names; `keeps` says that it is a real
    one, which may have conversations that are not open here.
    """

    def __init__(
        self, route: Route, make_backend: MakeBackend, services: Services, *, pods: Pods | None = None,
        upstream: Dialect | None = None, recorder: Recorder | None = None, keeps: bool = True,
    ) -> None:  # fmt: skip
        self.recorder = recorder
        self._route = route
        self._services = services
        self._ledger = services.ledger
        self._upstream = upstream or services.dialects()[route.upstream.dialect]
        self._all = Sessions(
            route, make_backend, services, pods=pods, upstream=self._upstream, recorder=recorder, keeps=keeps
        )  # fmt: skip
        self._all.enter = self._enter
        self._openings = Openings(route.name, self._all, services.new_id)
        self._policy = self._all.policy
        self.watchers = self._all.watchers
        self.behind = self._all.known
        self.on_shutdown: Callable[[Link], None] = lambda _link: None

    @property
    def sessions(self) -> list[Session]:
        """All sessions of the route."""
        return list(self._all.roster)

    @property
    def published(self) -> int:
        """How many sessions whoever subscribes to everything is told of."""
        return self._all.published

    def stop(self) -> None:
        """The gateway ends: every session does."""
        self._all.stop()

    # -- links -----------------------------------------------------------------------------------------

    def connected(self, link: Link) -> None:
        """A peer connected. A dialect whose backends hold one session shows the one behind the link's door at once."""
        link.open()
        if link.publishes:
            self._all.publish(link)
        elif link.dialect.one_session:
            self._once_known(link, lambda: self._enter(link))

    def _once_known(self, link: Link, action: Callable[[], None]) -> None:
        """Act for `link`, where need be once the backend has told which sessions it has."""
        if self._all.many is None:
            action()
        elif not self._all.many.when_known(lambda: action() if link.alive else None):
            link.end(CloseReason.GOING_AWAY, "too many clients wait for the backend")

    def _enter(self, link: Link) -> None:
        session = self._all.behind(link.door)
        if session is None or not self._policy.sees(link.principal, session.state):
            link.send([Reply(request="", failure=Failure(cause="not_found", text="there is no session here for you"))])
            link.end(CloseReason.DONE)
            return
        self._all.claim(link, session)
        session.backend.start()
        session.lobby.enter(link)

    def subscribed(self) -> None:
        """Connect to a backend of one connection for somebody who subscribed to what happens there."""
        if self._all.many is not None:
            self._all.many.shared.upstream.start()
        if self._all.only is not None:
            self._all.only.attendance.look()

    def gone(self, link: Link) -> None:
        """A peer went away. A session that nobody used is over, unless a door leads to it."""
        if link.publishes:
            self._all.unpublish(link)
        self._all.gone(link)
        kept = self._all.kept
        for session in self._all.roster:
            session.detach(link)
            if session.vacant and session is not self._all.only and session.state.id not in kept:
                self._all.drop(session)

    def drained(self, link: Link) -> None:
        """A peer has read everything."""
        for session in self._all.roster:
            session.delivery.drained(link)

    def receive(self, link: Link, bursts: list[Burst[Command]]) -> None:
        """A peer said this. One that speaks before it was shown anything is shown what there is."""
        if link.dialect.one_session and (own := self._all.known(link.door)) is not None:
            own.lobby.admit(link)
        for burst in bursts:
            for command in burst.items:
                self._once_known(link, partial(self._hear, link, command))

    # -- commands --------------------------------------------------------------------------------------

    def _hear(self, link: Link, command: Command) -> None:
        if link.tap is not None:
            link.tap.asks(command)
        self._command(link, command)

    def _command(self, link: Link, command: Command) -> None:
        match command:
            case Ping():
                link.send([Pong(request=command.request, at=self._services.clock())])
            case ListSessions() | GetSession() | ResumeSession() if link.dialect.one_session:
                self._describe(link, command)
            case ListSessions():
                self._tell_list(link, command)
            case OpenSession():
                self._open(link, command)
            case ResumeSession():
                self._resume(link, command)
            case GetSession():
                self._get(link, command)
            case ShutdownBackend():
                self._shut_down(link, command)
            case DeleteSession() if not self._upstream.commands.can_say(DeleteSession):
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
            self._ledger.record([loss], session=command.session, source=link.dialect.name, target=self._upstream.name)
        if session is not None:
            self._show(link, session, command.request, command.agent)
            session.describe(SessionActivated)
        elif self._all.forgot(command.session):
            self._not_found(link, command)
        elif not link.attaches and self._all.many is None:  # a caller activates what there is, and opens nothing by it
            self._get(link, GetSession(request=command.request, session=command.session))
        elif self._all.opens and self._all.roster.named(command.session) is not None:
            # A foreign one: the backend is asked by a name that nobody has, so its answer is that of an unknown one.
            self._open(link, structs.replace(command, session=self._services.new_id(), ext=None))
        else:
            self._open(link, command)

    def _act(self, link: Link, command: Command) -> None:
        if isinstance(command, OF_THE_BACKEND) and not command.session:
            self._ask_of_backend(link, command)
            return
        if isinstance(command, StoreWrite) and not command.session:
            self._unsupported(link, command, "there is no database here")
            return
        session = self._find(link, command.session)
        answers = isinstance(command, AnswerApproval | AnswerOtp | AnswerInteraction)
        if session is None and self._openings.may_be_kept(command) and not self._all.forgot(command.session):
            self._openings.find(link, command)
            return
        if session is None or (answers and not self._policy.answers(link.principal, session.state)):
            self._not_found(link, command)
            return
        if link.attaches and link.id not in session.delivery.attachments:  # any action that names a session attaches
            self._all.claim(link, session)
            session.attach(link)
        session.delivery.enter()
        if isinstance(command, GetHistory) and session is self._all.only and not link.attaches:
            self._ask_only(link, lambda: session.command(link, command))
        else:
            session.command(link, command)

    def _shut_down(self, link: Link, command: ShutdownBackend) -> None:
        """The end of this client's attachment, or of the backends that it uses (docs/translation.md, rule 3.16)."""
        used = [session for session in self._all.roster if link.id in session.delivery.attachments]
        if self._route.shutdown == "backend" and used:
            first, *others = used
            first.forward(link, command)
            for session in others:
                session.forward(None, command)
        else:
            link.send([Reply(request=command.request)])
            link.send([BackendShutdown(reason="detached")])
            link.end(CloseReason.DONE)
        self.on_shutdown(link)

    def _ask_of_backend(self, link: Link, command: Command) -> None:
        one_each = self._all.many is None  # a pando has no handler for such (docs/dialects/pando.md, section 6)
        if one_each and self._upstream.commands.can_say(type(command)):
            self._all.control.forward(link, command)
        else:
            self._unsupported(link, command, f"a {self._upstream.name} backend cannot be asked this")

    def _delete(self, link: Link, command: DeleteSession) -> None:
        """Forget a session whose backend has no word for that: it is shown to nobody any more."""
        session = self._find(link, command.session)
        listed = self._all.listed(command.session)
        if session is not None and not self._all.opens:
            self._unsupported(link, command, "the backend is one session, and cannot be deleted")
            return
        if session is not None:
            self._all.forget(self._all.roster.names(session))
            session.delivery.enter()
            session.describe(SessionClosed)
            self._all.drop(session)
        elif listed is not None and not self._all.forgot(command.session):
            self._all.forget((command.session, listed.session))
        else:
            self._not_found(link, command)
            return
        link.send([Reply(request=command.request)])

    def _describe(self, link: Link, command: ListSessions | GetSession | ResumeSession) -> None:
        """A client that is shown one session knows of no other, unless its door stands beside theirs."""
        own = self._all.known(link.door)
        if own is not None and link.door.directory is not None:
            link.send([link.door.directory.answer(command, own.state)])
        elif own is not None and isinstance(command, ListSessions):
            link.send([SessionsListed(request=command.request, sessions=(summary(own.state),))])
        elif own is not None and command.session in ("", own.state.id):
            self._show(link, own, command.request, "")
        else:
            self._not_found(link, command)

    def _list(self, link: Link, command: ListSessions, rows: Rows = ()) -> SessionsListed | Reply:
        own = [session for session in self._all.roster if self._policy.sees(link.principal, session.state)]
        rows = [row for row in rows if not self._all.forgot(row.session)]
        seen = joined(own, rows, lambda row: self._all.roster.named(row.session))
        if self._all.many is not None:  # all have a title there: it lists those in which anything was said
            seen = [row for row in seen if row.messages]
        try:
            opened = {s.state.id for s in own if s.state.backend_ids is not None} if self._upstream.lists_silent else ()
            return listing(seen, command, silent=link.dialect.lists_silent, opened=opened)
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
            self._services.schedule(self._services.limits.snapshot_wait, told)
        else:
            then()

    def _tell_list(self, link: Link, command: ListSessions) -> None:
        """Answer with the sessions that there are, once the backend told those that it has."""
        if self._all.pods is not None:
            self._ask_pods(self._all.pods.all(), lambda: link.send([self._list(link, command)]))
        elif (stored := self._all.stored) is not None:
            stored.ask(command.archived, lambda rows: link.send([self._list(link, command, rows)]))
        else:
            self._ask_only(link, lambda: link.send([self._list(link, command)]))

    def _ask_only(self, link: Link, then: Callable[[], None]) -> None:
        """Have a backend of one session tell what it is about, for `link` that looks, then go on."""
        only = self._all.only
        if only is None or link.id in only.delivery.attachments:
            then()
        else:
            only.attendance.look()
            only.lobby.when_open(then)

    def _open(self, link: Link, command: OpenSession | ResumeSession) -> None:
        """A backend that holds one session gives that one to its owner and is busy for everybody else."""
        if isinstance(command, OpenSession) and command.session and self._all.in_use(link, command.session):
            failure = Failure(cause="busy", text=ID_IN_USE)
            link.send([Reply(request=command.request, failure=failure)])
            return
        if self._all.opens:
            self._openings.ask(link, command)
            return
        pods = self._all.pods
        session = self._all.only or (pods.opened(command, link.principal) if pods is not None else None)
        if session is None or not self._policy.opens(link.principal, session.state):
            text = "no pod is free" if pods else "the backend holds one session, and it is somebody else's"
            link.send([Reply(request=command.request, failure=Failure(cause="busy", text=text))])
            return
        if command.agent:
            session.state.agent = command.agent
        if isinstance(command, OpenSession):
            self._all.choose(link, session, command.session)
            session.describe()
        self._show(link, session, command.request, command.agent)

    def _get(self, link: Link, command: GetSession) -> None:
        session = self._find(link, command.session)
        foreign = self._all.roster.named(command.session) is not None  # as unknown as any
        if session is not None:
            self._show(link, session, command.request, "")
        elif not self._all.opens or foreign or self._all.forgot(command.session):
            self._not_found(link, command)
        else:
            self._openings.get(link, command)

    def _show(self, link: Link, session: Session, request: str, agent: str) -> None:
        state = session.state
        session.delivery.enter()
        if link.id in session.delivery.attachments:
            opened = SessionOpened(
                request=request, session=state.id, agent=agent or state.agent, title=state.title, status=state.status,
                ext=state.ids,
            )  # fmt: skip
            link.send([opened])
        else:
            self._all.claim(link, session)
            session.attach(link, request)

    def _find(self, link: Link, name: str) -> Session | None:
        """The session that `link` calls `name`, or its own for ""; None if there is none that it may see."""
        if not name:
            mine = [session for session in self._all.roster if link.id in session.delivery.attachments]
            return mine[0] if len(mine) == 1 else None
        session = self._all.roster.named(name)
        if session is None and self._all.pods is not None:
            session = self._all.pods.named(name)
        return session if session is not None and self._policy.sees(link.principal, session.state) else None

    def _unsupported(self, link: Link, command: Command, text: str) -> None:
        link.send([Reply(request=command.request, failure=Failure(cause="unsupported", text=text))])

    def _not_found(self, link: Link, command: Command) -> None:
        failure = Failure(cause="not_found", text=f"session {command.session!r} not found")
        link.send([Reply(request=command.request, failure=failure)])
