"""A directory of pods as a backend: one session for each pod, made when a client needs it (docs/design.md, section 5).

The id of a pod's session follows from its endpoint, so that it is the same after a restart. A client names a pod by its
session, or when it opens a session: by an agent id (the pod's name, or UUIDv5 of route and name) or by `metadata.pod`.
A client that names none gets the first idle pod without an owner. A pod has an owner while its session lives.

A directory may hold thousands of pods. An open or a look-up costs as many system calls as with one pod: names are found
in an index, and only the pod that is to be used is asked whether it is alive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

import msgspec
from msgspec import UNSET, Struct

from dragoman.gateway.backends.asking import Refused
from dragoman.gateway.backends.kind import BackendKind, MakeBackend
from dragoman.gateway.ingress import LATEST, NEW
from dragoman.gateway.link import Link
from dragoman.gateway.pods.live import Pod, Pods
from dragoman.gateway.routing.ids import session_id
from dragoman.gateway.routing.session_index import Rows
from dragoman.gateway.routing.sessions import Sessions
from dragoman.gateway.session.ports import Backend
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical.commands import OpenSession, ResumeSession
from dragoman.mappings.canonical.values import Failure

__all__ = ["PodsKind"]

NONE_FREE = Failure(cause="busy", text="no pod is free")
NONE_RUNS = Failure(cause="busy", text="no pod is running")
TRIED_AGAIN_NS = 1_000_000_000  # a pod that was busy or not alive is tried again after so long, if no other is free


class PodMetadata(Struct):
    """The part of a client's metadata that is read."""

    pod: str = ""


class PodsKind(BackendKind):
    """The pods of one directory, each a backend of one session."""

    cannot_delete = "the backend is one session, and cannot be deleted"

    def __init__(self, sessions: Sessions, make_backend: MakeBackend, pods: Pods) -> None:
        super().__init__(sessions, make_backend)
        self._pods = pods
        self._route = sessions.route.name
        self._names: Sequence[str] = ()  # the pods that are in the index
        self._ids: dict[str, tuple[str, ...]] = {}  # pod -> ids of its session that clients know, our own first
        self._by_id: dict[str, str] = {}
        self._by_agent: dict[str, str] = {}
        self._candidates: list[str] = []  # heap of the pods that may be free
        self._queued: set[str] = set()  # what is in the heap
        self._passed_over: dict[str, bool] = {}  # pods that were busy (True) or not alive (False)
        self._tried_again = 0  # ns: when those were made candidates again
        self._described: dict[str, tuple[int, bool]] = {}  # pod -> when its status changed, and whether it was alive
        sessions.watchers.append(self._reconsider)

    def list_sessions(self, _link: Link, _archived: bool, tell: Callable[[Rows], None]) -> None:
        """Connect to the pods without an owner, because a pod describes its session to whoever connects."""
        self._update_index()
        asked = [session for name in self._names if (session := self._undescribed(name)) is not None]
        for session in asked:
            session.backend.start()

        def told() -> None:
            for session in asked:
                if not session.state.owner:  # no client has opened it meanwhile
                    session.backend.rest()
            tell(())

        if asked:
            self._services.schedule(self._services.limits.snapshot_wait, told)
        else:
            tell(())

    def _undescribed(self, name: str) -> Session | None:
        """Return the session of a live pod without an owner whose status has changed since it was last asked."""
        known = self._sessions.index.find_session(self._ids[name][0])
        if known is not None and known.state.owner:
            return None
        at, described = self._pods.told_at(name), self._described.get(name)
        if at is not None and (described == (at, False) or (described == (at, True) and known is not None)):
            return None
        session = self._live_session(name)
        if at is not None:
            self._described[name] = at, session is not None
        return session

    def find_session(self, name: str) -> Session | None:
        self._update_index()
        pod = self._by_id.get(name)
        return self._live_session(pod) if pod is not None else None

    def session_behind(self, wanted: str) -> Session | None:
        known = self._sessions.index.find_session(wanted)
        if known is not None:
            return known
        self._update_index()
        if wanted in ("", NEW):
            return self._free_session()
        if wanted == LATEST:
            newest = self._pods.latest()
            return None if newest is None else self._session_of(newest)
        return self._live_session(wanted) if wanted in self._ids else self.find_session(wanted)

    def open_session(self, link: Link, command: OpenSession | ResumeSession) -> Session | None:
        session = self._session_for(command, link.principal)
        if session is None or not self._sessions.policy.opens(link.principal, session.state):
            raise Refused(self._why_none())
        return session

    def _session_for(self, command: OpenSession | ResumeSession, principal: str) -> Session | None:
        self._update_index()
        wanted = _pod_named_by(command)
        name = wanted or self._by_agent.get(command.agent, command.agent)
        session = self._live_session(name) if name in self._ids else None
        if session is not None and self._sessions.policy.sees(principal, session.state):
            return session  # the caller refuses it if the client must not open it
        return None if wanted else self._free_session()

    # -- free pods -------------------------------------------------------------------------------------

    def _free_session(self) -> Session | None:
        """Return the session of the first candidate that is free. Pods that are not free stop being candidates."""
        session = self._free_candidate()
        now = self._services.clock()
        if session is None and self._passed_over and now - self._tried_again >= TRIED_AGAIN_NS:
            self._tried_again = now
            passed_over, self._passed_over = self._passed_over, {}
            for name in passed_over:
                self._queue(name)
            session = self._free_candidate()
        return session

    def _free_candidate(self) -> Session | None:
        while self._candidates:
            name = self._candidates[0]
            if name in self._ids and (session := self._session_if_free(name)) is not None:
                return session
            self._queued.discard(heappop(self._candidates))
        return None

    def _session_if_free(self, name: str) -> Session | None:
        session = self._sessions.index.find_session(self._ids[name][0])
        if session is not None and session.state.owner:
            return None  # a candidate again once its owner has left
        pod = self._pods.find_pod(name)
        idle = pod is not None and (pod.status if session is None else session.state.status) == "idle"
        if pod is None or not idle:
            self._passed_over[name] = pod is not None
            return None
        return session or self._session_of(pod)

    def _why_none(self) -> Failure:
        """Return the failure of a client that gets no pod."""
        while self._candidates:
            name = self._candidates[0]
            if name in self._ids and self._pods.find_pod(name) is not None:
                return NONE_FREE
            self._queued.discard(heappop(self._candidates))
            if name in self._ids:
                self._passed_over[name] = False
        runs = any(self._passed_over.values()) or any(session.state.owner for session in self._sessions.index)
        return NONE_FREE if runs else NONE_RUNS

    def _queue(self, name: str) -> None:
        if name not in self._queued:
            self._queued.add(name)
            heappush(self._candidates, name)

    def _reconsider(self, session: Session) -> None:
        """Make a pod a candidate again when its session has lost its owner, or has ended."""
        name = self._by_id.get(session.state.id)
        if name is not None and (not session.state.owner or session not in self._sessions.index):
            self._queue(name)

    # -- the index -------------------------------------------------------------------------------------

    def _update_index(self) -> None:
        """Index the pods that are new in the directory, and forget those that have left it."""
        names = self._pods.names()
        if names is self._names:
            return
        self._names = names
        for name in self._ids.keys() - set(names):
            self._passed_over.pop(name, None)
            self._by_agent.pop(session_id(self._route, name), None)
            self._described.pop(name, None)
            for known_as in self._ids.pop(name):
                self._by_id.pop(known_as, None)
        for name in names:
            if name not in self._ids:
                self._by_agent[session_id(self._route, name)] = name
                self._ids[name] = ids = self._ids_of(name)
                self._by_id |= dict.fromkeys(ids, name)
                self._queue(name)

    def _ids_of(self, name: str) -> tuple[str, ...]:
        own = session_id(self._route, str(self._pods.endpoint(name)))
        dialects = self._services.dialects().values()
        return (own, *(shown for dialect in dialects for shown in dialect.public_ids(own, None)))

    def _live_session(self, name: str) -> Session | None:
        pod = self._pods.find_pod(name)
        return self._session_of(pod) if pod is not None else None

    def _session_of(self, pod: Pod) -> Session:
        own = self._ids[pod.name][0]
        known = self._sessions.index.find_session(own)
        if known is not None:
            return known

        def connect(session: Session) -> Backend:
            return self._make_backend(session, pod.endpoint)

        session = self._sessions.make(own, connect, name=pod.name, on_rested=_disown)
        session.state.title = pod.name
        return session


def _disown(session: Session) -> None:
    """Let the next client have a pod whose owner did not come back."""
    session.state.owner = ""


def _pod_named_by(command: OpenSession | ResumeSession) -> str:
    """Return the pod that a client's metadata names, or ""; the metadata may have any content."""
    if command.metadata is UNSET:
        return ""
    try:
        return msgspec.json.decode(command.metadata, type=PodMetadata).pod
    except msgspec.DecodeError:
        return ""
