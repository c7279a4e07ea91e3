"""A backend that holds one session: its owner gets it, and all others are refused as busy."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.gateway.backends.kind import BackendKind, MakeBackend
from dragoman.gateway.link import Link
from dragoman.gateway.routing.ids import session_id
from dragoman.gateway.routing.quota import Refused
from dragoman.gateway.routing.sessions import Sessions
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical.commands import OpenSession, ResumeSession
from dragoman.mappings.canonical.values import Failure

__all__ = ["SingleKind"]

HELD = Failure(cause="busy", text="the backend holds one session, which belongs to another user")


class SingleKind(BackendKind):
    """The backend of a route whose endpoint is one session, made with the route."""

    cannot_delete = "the backend is one session, and cannot be deleted"

    def __init__(self, sessions: Sessions, make_backend: MakeBackend) -> None:
        super().__init__(sessions, make_backend)
        route = sessions.route
        self._only = sessions.make(session_id(route.name, str(route.upstream)), self._connect_upstream, kept=True)

    def when_described(self, link: Link, action: Callable[[], None]) -> None:
        if link.id in self._only.delivery.attachments:
            action()
        else:
            self._only.presence.look()
            self._only.pending.when_open(action)

    def subscribed(self) -> None:
        self._only.presence.look()

    def session_behind(self, _wanted: str, _principal: str) -> Session | None:
        return self._only

    def open_session(self, link: Link, _command: OpenSession | ResumeSession) -> Session | None:
        if not self._sessions.policy.opens(link.principal, self._only.state):
            raise Refused(HELD)
        return self._only
