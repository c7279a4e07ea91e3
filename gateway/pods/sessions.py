"""The sessions behind a directory of pods: one for each pod, made when it is asked for (docs/design.md, section 5).

A pod's session has the id of its endpoint, so that it is the same after a restart. A client names a pod by its session,
or as it opens one: by an agent id (the pod's name, or UUIDv5 of route and name) or `metadata.pod`. One that names none
gets the first idle pod that nobody owns; a pod is owned while its session lives.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import UNSET, Struct

from dragoman.gateway.pods.live import Pod, Pods
from dragoman.gateway.routing.door import LATEST, NEW
from dragoman.gateway.routing.ids import session_id
from dragoman.gateway.routing.policy import Policy
from dragoman.gateway.routing.roster import Roster
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical.commands import OpenSession, ResumeSession
from dragoman.mappings.dialect import Dialect

__all__ = ["PodSessions"]


class Metadata(Struct):
    """What we read of a client's metadata."""

    pod: str = ""


class PodSessions:
    """Finds and makes them; `make` makes a session with its way to a pod."""

    def __init__(
        self, route: str, pods: Pods, roster: Roster, policy: Policy, dialects: Callable[[], dict[str, Dialect]],
        make: Callable[[str, Pod], Session],
    ) -> None:  # fmt: skip
        self._route = route
        self._pods = pods
        self._roster = roster
        self._policy = policy
        self._dialects = dialects
        self._make = make

    def id(self, pod: Pod) -> str:
        """The id of its session."""
        return session_id(self._route, str(pod.endpoint))

    def entered(self, wanted: str) -> Session | None:
        """The session for a door that asks for `new`, `latest`, or a pod by its name or session."""
        if wanted in ("", NEW):
            return self._free()
        if wanted == LATEST:
            newest = max(self._pods.live(), key=lambda pod: pod.updated_at, default=None)
            return None if newest is None else self._of(newest)
        pod = self._pods.named(wanted)
        return self._of(pod) if pod is not None else self.named(wanted)

    def opened(self, command: OpenSession | ResumeSession, principal: str) -> Session | None:
        """The session for a client that opens one; None if no pod is free for it."""
        name = _named_in(command)
        known = (name,) if name else (command.agent,)
        for pod in self._pods.live():
            if pod.name in known or (not name and session_id(self._route, pod.name) in known):
                session = self._of(pod)
                if self._policy.sees(principal, session.state):
                    return session  # the caller refuses what may be seen and not be opened
        return None if name else self._free()

    def named(self, name: str) -> Session | None:
        """The session that a client knows by `name`: it was listed, and may not have been opened yet."""
        for pod in self._pods.live():
            names = (self.id(pod), *(n for d in self._dialects().values() for n in d.shown(self.id(pod), None)))
            if name in names:
                return self._of(pod)
        return None

    def all(self) -> list[Session]:
        """A session for every pod that is there now."""
        return [self._of(pod) for pod in self._pods.live()]

    def _free(self) -> Session | None:
        for pod in self._pods.live():
            session = self._roster.named(self.id(pod))
            if session is None:
                if pod.status == "idle":
                    return self._of(pod)
            elif session.state.status == "idle" and not session.state.owner:
                return session
        return None

    def _of(self, pod: Pod) -> Session:
        return self._roster.named(self.id(pod)) or self._make(self.id(pod), pod)


def _named_in(command: OpenSession | ResumeSession) -> str:
    """The pod that a client's metadata names, "" if none: it is the client's own and need not speak of pods."""
    if command.metadata is UNSET:
        return ""
    try:
        return msgspec.json.decode(command.metadata, type=Metadata).pod
    except msgspec.DecodeError:
        return ""
