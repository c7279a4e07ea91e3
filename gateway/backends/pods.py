"""A directory of pods as a backend: one session for each pod, made when a client needs it (docs/design.md, section 5).

The id of a pod's session follows from its endpoint, so that it is the same after a restart. A client names a pod by its
session, or when it opens a session: by an agent id (the pod's name, or UUIDv5 of route and name) or by `metadata.pod`.
A client that names none gets the first idle pod without an owner. Another agent id names no pod. A pod has an owner
while its session lives.

A directory may hold thousands of pods. Actions that need them wait in one queue, which one task serves. It reads the
folders in a thread, and checks in a thread if the pod that is to be used is alive. A dead pod is passed over for the
next. A list is made from the folders that were read, without a connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice

import msgspec
from msgspec import UNSET, Raw, Struct, structs

from dragoman.adapters.base import CloseReason
from dragoman.gateway.backends.kind import BackendKind, MakeBackend, not_found
from dragoman.gateway.ingress import LATEST, NEW
from dragoman.gateway.link import Link
from dragoman.gateway.pods.index import SLICE, KnownPods, PodIndex
from dragoman.gateway.pods.live import Pod, Pods
from dragoman.gateway.routing.ids import session_id
from dragoman.gateway.routing.policy import Refused
from dragoman.gateway.routing.session_index import Rows, completed
from dragoman.gateway.routing.session_list import page_size
from dragoman.gateway.routing.sessions import Sessions
from dragoman.gateway.session.ports import Backend
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import GetSession, ListSessions, OpenSession, ResumeSession
from dragoman.mappings.canonical.values import Failure, SessionSummary

AT_ONCE = 8  # actions in one step of the event loop: a connect takes 0.3 to 0.5 ms of it
NONE_FREE = Failure(
    cause="busy", text="no pod is free; each stays with its client until `session_ttl` after the client has left"
)
NONE_RUNS = Failure(cause="busy", text="no pod is running")


class PodMetadata(Struct):
    """The fields of a client's metadata that the gateway reads."""

    pod: str = ""


class WaitingAction(Struct, frozen=True):
    """An action of a client that waits until the pod that it needs is known; `command` is None for a new client."""

    link: Link
    command: Command | None
    act: Callable[[], None]


class Choice(Struct):
    """The session that was chosen for the current action. With None the action is refused with the failure `why`.

    `is_final` is True if the client is refused although a pod may be free.
    """

    session: Session | None = None
    why: Failure = NONE_FREE
    is_final: bool = False


class PodsKind(BackendKind):
    """The pods of one directory, each a backend of one session."""

    cannot_delete = "the backend is one session, and cannot be deleted"

    def __init__(self, sessions: Sessions, make_backend: MakeBackend, pods: Pods) -> None:
        super().__init__(sessions, make_backend)
        self._pods = pods
        self._index = PodIndex(self._ids_of, lambda name: session_id(sessions.route.name, name))
        self._known = KnownPods(pods, self._index, self._services.monotonic, sessions.list.note_changed)
        self._queue: deque[WaitingAction] = deque()
        self._choice = Choice()
        self._free: deque[Pod] = deque()  # free pods that were found alive, for the waiting clients
        sessions.watchers.append(self._reconsider)
        sessions.on_suspended.append(_disown)

    def list_sessions(self, _link: Link, command: ListSessions, send_rows: Callable[[Rows], None]) -> None:
        send_rows([*self._page(command)])

    def row_of(self, session: Session) -> SessionSummary:
        pod = self._index.find_listed(session.state.id)
        return completed(session, _row(self._index.session_of(pod.name), pod)) if pod is not None else session.summary()

    def session_for_listener(self, _wanted: str, _principal: str) -> Session | None:
        if self._choice.is_final:
            raise Refused(self._choice.why)
        return self._choice.session

    def get_session(self, link: Link, command: GetSession) -> None:
        if self._choice.is_final:
            raise Refused(self._choice.why)
        super().get_session(link, command)

    def open_session(self, link: Link, _command: OpenSession | ResumeSession) -> Session | None:
        chosen = self._choice.session
        if chosen is None or not self._sessions.policy.opens(link.principal, chosen.state):
            raise Refused(self._choice.why)
        return chosen

    def agent_of(self, session: Session, wanted: str) -> str:
        """Return an id that selects the same pod again, for a client that named it by its name."""
        name = self._index.find_pod(session.state.id)
        return session_id(self._sessions.route.name, name) if name is not None and wanted == name else wanted

    def without_session_choice(self, command: OpenSession | ResumeSession) -> OpenSession | ResumeSession:
        if command.metadata is UNSET or not _pod_named_by(command):
            return command
        rest = msgspec.json.decode(command.metadata, type=dict[str, Raw])
        del rest["pod"]
        return structs.replace(command, metadata=Raw(msgspec.json.encode(rest)) if rest else UNSET)

    # -- the queue -------------------------------------------------------------------------------------

    def when_known(self, link: Link, command: Command | None, action: Callable[[], None]) -> bool:
        postponed = self._sessions.postponed
        earlier = postponed.waiting.get(link.id, ())
        if not earlier and not self._needs_pods(link, command):
            action()
            return True
        services = self._services
        if len(earlier) >= services.limits.pending_commands:
            return False
        self._queue.append(WaitingAction(link, command, postponed.postpone(link, action, command)))
        if len(self._queue) == 1:
            _ = services.start_task(self._serve(), f"{self._sessions.route.name}:pods")
        return True

    def _needs_pods(self, link: Link, command: Command | None) -> bool:
        """Return True if the action needs more than the sessions that are open here."""
        if command is None:
            return self._sessions.listener_sessions.find_session(link.ingress) is None
        if isinstance(command, ListSessions | OpenSession):
            return isinstance(command, OpenSession) or not link.dialect.single_session
        return bool(command.session) and not self._is_open(link, command.session)

    def _is_open(self, link: Link, name: str) -> bool:
        session = self._sessions.index.find_session(name)
        return session is not None and self._sessions.policy.sees(link.principal, session.state)

    async def _serve(self) -> None:
        """Perform the queued actions, each after its pod was looked up."""
        while self._queue:
            for number in range(1, len(self._queue) + 1):
                waiting = self._queue[0]
                link = waiting.link
                try:
                    if link.alive:
                        self._choice = await self._choose(link, waiting.command)
                        waiting.act()
                except Exception:  # no caller is above this task: the failure ends this client alone
                    link.log.exception("cannot find a pod for the client, disconnecting it")
                    link.end(CloseReason.INTERNAL)
                self._choice = Choice()
                if not number % AT_ONCE:
                    await asyncio.sleep(0)  # other clients get a step of the event loop
                self._queue.popleft()
            self._free.clear()  # found for those who waited: the pods may die before the next ones come

    async def _choose(self, link: Link, command: Command | None) -> Choice:
        """Return the session that an action needs, created if it is not open here, or the reason why there is none."""
        await self._known.update_names()
        session: Session | None = None
        try:
            if command is None:
                session = await self._session_for_listener(link.ingress.session, link.principal)
            elif isinstance(command, ListSessions):
                await self._known.read_folders()
            elif isinstance(command, OpenSession):
                session = await self._session_for(command, link.principal)
            elif not self._is_open(link, command.session):
                named = await self._named_session(self._index.find_pod(command.session), link.principal)
                if named is None and isinstance(command, ResumeSession) and link.dialect.resumes_unknown:
                    session = await self._session_for(command, link.principal)
        except Refused as refused:
            return Choice(why=refused.failure, is_final=True)
        runs = session is not None or self._sessions.quota.has_owners or any(self._index.newest_first())
        return Choice(session=session, why=NONE_FREE if runs else NONE_RUNS)

    # -- the pod that is to be used ----------------------------------------------------------------------

    async def _session_for_listener(self, wanted: str, principal: str) -> Session | None:
        if wanted in ("", NEW):
            return self._session_of(await self._find_free(), principal)
        if wanted == LATEST:
            return await self._newest_session(principal)
        return await self._named_session(self._index.find_pod(wanted), principal)

    async def _session_for(self, command: OpenSession | ResumeSession, principal: str) -> Session | None:
        wanted = _pod_named_by(command)
        name = self._index.find_agent(wanted or command.agent)
        session = await self._named_session(name, principal)
        if session is not None and self._sessions.policy.sees(principal, session.state):
            return session  # it is refused later if the client must not open it
        if wanted or name is not None:
            raise Refused(not_found(wanted or command.agent, "pod"))
        return self._session_of(await self._find_free(), principal)

    async def _named_session(self, name: str | None, principal: str) -> Session | None:
        """Return the session of this pod if the pod is listed and alive."""
        if name is None:
            return None
        (pod,) = await self._known.probe([name])
        return self._session_of(self._index.find_pod(name) if pod.listens else None, principal)

    async def _newest_session(self, principal: str) -> Session | None:
        """Return the session of the live pod whose status changed last."""
        await self._known.read_folders()
        while names := [pod.name for pod in islice(self._index.newest_first(), SLICE)]:
            last = (await self._known.probe(names))[-1]
            if last.listens:
                return self._session_of(last.name, principal)
        return None

    async def _find_free(self) -> str | None:
        """Return the name of the first free pod; None if there is none.

        The candidates come first, then the pods whose folders have changed. One call of a thread looks for as many pods
        as clients wait.
        """
        while self._free and not self._is_still_free(self._free[0]):
            self._free.popleft()
        for has_candidates in (True, False):
            if self._free:
                break
            if not has_candidates:
                await self._known.read_folders()
            most = wanted = min(len(self._queue), SLICE)
            while not self._free and (names := self._index.next_candidates(most, self._is_owned)):
                asked = await self._known.probe(names, wanted=wanted, idle=True)
                for pod in filter(self._is_free, asked):
                    self._free.append(pod)
                    self._index.add_candidate(pod.name)  # the client that gets it may still be refused
                for name in names[len(asked) :]:
                    self._index.add_candidate(name)
                most = min(2 * most, SLICE)
        return self._free[0].name if self._free else None

    def _is_free(self, pod: Pod) -> bool:
        session = self._sessions.index.find_session(self._index.session_of(pod.name))
        return pod.listens and pod.status == "idle" and (session is None or session.state.status == "idle")

    def _is_still_free(self, pod: Pod) -> bool:
        is_there = self._index.find_pod(pod.name) is not None
        return is_there and self._is_free(pod) and not self._is_owned(self._index.session_of(pod.name))

    def _is_owned(self, id: str) -> bool:
        session = self._sessions.index.find_session(id)
        return bool(session.state.owner if session is not None else self._sessions.past.owner_of(id))

    def _reconsider(self, session: Session) -> None:
        """Make a pod a candidate again when its session has lost its owner, or has ended."""
        name = self._index.find_pod(session.state.id)
        if name is not None and (not session.state.owner or session not in self._sessions.index):
            self._index.add_candidate(name)

    def _page(self, command: ListSessions) -> Iterator[SessionSummary]:
        """Yield the rows for one page of a list: of the pods whose sessions are not open here."""
        find, cursor, query = self._sessions.index.find_session, command.cursor, command.query.lower()
        pod, known = self._index.find_listed(cursor), find(cursor)
        times = [pod.updated_at] if pod is not None else []
        if known is not None:
            times.append(known.state.updated_at or known.state.opened_at)
        left = page_size(command) + 1  # one more than the page shows whether another page follows
        is_past = pod is None or known is not None  # a session that is open comes before the rows of its time
        for pod in self._index.newest_first(max(times, default=None)):
            if not left:
                return
            row = _row(self._index.session_of(pod.name), pod)
            if query in pod.name.lower() and find(row.session) is None:
                yield row
                left -= is_past
                is_past = is_past or row.session == cursor

    # --------------------------------------------------------------------------------------------------

    def _ids_of(self, name: str) -> tuple[str, ...]:
        own = session_id(self._sessions.route.name, str(self._pods.endpoint(name)))
        return tuple(self._sessions.index.names_of(own, None))

    def _session_of(self, name: str | None, principal: str) -> Session | None:
        """Return the session of a pod, created for the principal if it is not open here; None if `name` is None."""
        if name is None:
            return None
        own, endpoint = self._index.session_of(name), self._pods.endpoint(name)
        known = self._sessions.index.find_session(own)
        if known is not None:
            return known

        def connect(session: Session) -> Backend:
            return self._make_backend(session, endpoint)

        session = self._sessions.make(own, connect, name=name, principal=principal)
        session.state.title = name
        return session


def _row(session: str, pod: Pod) -> SessionSummary:
    """Return the list row of a pod.

    It says one message, or none if the pod's folder says so: no pod is asked for a list.
    """
    messages = 0 if pod.silent else 1
    return SessionSummary(
        session=session, title=pod.name, updated_at=pod.updated_at, messages=messages, status=pod.status
    )


def _disown(session: Session) -> None:
    """Free a pod for the next client: its owner did not come back."""
    session.state.owner = ""


def _pod_named_by(command: OpenSession | ResumeSession) -> str:
    """Return the pod that a client's metadata names, or ""; the metadata may have any content."""
    if command.metadata is UNSET:
        return ""
    try:
        return msgspec.json.decode(command.metadata, type=PodMetadata).pod
    except msgspec.DecodeError:
        return ""
