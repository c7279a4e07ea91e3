"""A directory of pods as a backend: one session for each pod, made when a client needs it (docs/design.md, section 5).

The id of a pod's session follows from its endpoint, so that it is the same after a restart. A client names a pod by its
session, or when it opens a session: by an agent id (the pod's name, or UUIDv5 of route and name) or by `metadata.pod`.
A client that names none gets the first idle pod without an owner. A pod has an owner while its session lives.
"""

from __future__ import annotations

from collections.abc import Callable

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

    def list_sessions(self, _link: Link, _archived: bool, tell: Callable[[Rows], None]) -> None:
        """Connect to the pods without an owner, because a pod describes its session to whoever connects."""
        asked = [session for session in map(self._session_of, self._pods.live()) if not session.state.owner]
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

    def find_session(self, name: str) -> Session | None:
        dialects = self._services.dialects().values()
        for pod in self._pods.live():
            own = self._id(pod)
            if name in (own, *(shown for dialect in dialects for shown in dialect.public_ids(own, None))):
                return self._session_of(pod)
        return None

    def session_behind(self, wanted: str) -> Session | None:
        known = self._sessions.index.find_session(wanted)
        if known is not None:
            return known
        if wanted in ("", NEW):
            return self._free_session()
        if wanted == LATEST:
            newest = max(self._pods.live(), key=lambda pod: pod.updated_at, default=None)
            return None if newest is None else self._session_of(newest)
        pod = self._pods.named(wanted)
        return self._session_of(pod) if pod is not None else self.find_session(wanted)

    def open_session(self, link: Link, command: OpenSession | ResumeSession) -> Session | None:
        session = self._session_for(command, link.principal)
        if session is None or not self._sessions.policy.opens(link.principal, session.state):
            raise Refused(NONE_FREE if self._pods.live() else NONE_RUNS)
        return session

    def _session_for(self, command: OpenSession | ResumeSession, principal: str) -> Session | None:
        name = _pod_named_by(command)
        known = (name,) if name else (command.agent,)
        for pod in self._pods.live():
            if pod.name in known or (not name and session_id(self._route, pod.name) in known):
                session = self._session_of(pod)
                if self._sessions.policy.sees(principal, session.state):
                    return session  # the caller refuses it if the client must not open it
        return None if name else self._free_session()

    def _free_session(self) -> Session | None:
        for pod in self._pods.live():
            session = self._sessions.index.find_session(self._id(pod))
            if session is None:
                if pod.status == "idle":
                    return self._session_of(pod)
            elif session.state.status == "idle" and not session.state.owner:
                return session
        return None

    def _id(self, pod: Pod) -> str:
        return session_id(self._route, str(pod.endpoint))

    def _session_of(self, pod: Pod) -> Session:
        known = self._sessions.index.find_session(self._id(pod))
        if known is not None:
            return known

        def connect(session: Session) -> Backend:
            return self._make_backend(session, pod.endpoint)

        session = self._sessions.make(self._id(pod), connect, name=pod.name, on_rested=_disown)
        session.state.title = pod.name
        return session


def _disown(session: Session) -> None:
    """Give up the ownership of a pod for which nobody came back: the next client may have it."""
    session.state.owner = ""


def _pod_named_by(command: OpenSession | ResumeSession) -> str:
    """Return the pod that a client's metadata names, or ""; the metadata may have any content."""
    if command.metadata is UNSET:
        return ""
    try:
        return msgspec.json.decode(command.metadata, type=PodMetadata).pod
    except msgspec.DecodeError:
        return ""
