"""A backend that holds one session: its owner gets it, and all others are refused as busy.

A route with several such upstreams has a session for each, and new clients get that of the first healthy one.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.gateway.backends.kind import BackendKind, MakeBackend, not_found
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.link import Link
from dragoman.gateway.routing.ids import session_id
from dragoman.gateway.routing.policy import Refused
from dragoman.gateway.routing.sessions import Sessions
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical.commands import OpenSession, ResumeSession
from dragoman.mappings.canonical.values import Failure

ChooseUpstream = Callable[[Endpoint | None], Endpoint]
"""Returns one of several upstreams for a client: the given one, if it is healthy."""

HELD = Failure(cause="busy", text="the backend holds one session, which belongs to another user")


class SingleKind(BackendKind):
    """The backend of a route whose endpoint is one session, made with the route."""

    cannot_delete = "the backend is one session, and cannot be deleted"

    def __init__(self, sessions: Sessions, make_backend: MakeBackend, choose: ChooseUpstream | None = None) -> None:
        """Make the first session. `choose` is set if the route has several upstreams."""
        super().__init__(sessions, make_backend)
        self._choose = choose
        self._made: dict[Endpoint, Session] = {}
        self._only = self._session_at(sessions.route.upstream)

    def _session_at(self, endpoint: Endpoint) -> Session:
        """Return the session of an upstream, which is made when a client first needs it."""
        session = self._made.get(endpoint)
        if session is None:
            own = session_id(self._sessions.route.name, str(endpoint))
            session = self._made[endpoint] = self._sessions.make(own, lambda made: self._make_backend(made, endpoint))
            self._sessions.listener_sessions.keep(session)
        return session

    def _session_for_new(self) -> Session:
        """Return the session that a new client gets now, and that commands without a session are about."""
        if self._choose is not None:
            self._only = self._session_at(self._choose(None))
        return self._only

    def takes_further_clients(self, session: Session) -> bool:
        if self._choose is None:
            return True
        own = next(endpoint for endpoint, made in self._made.items() if made is session)
        return self._choose(own) == own

    def when_described(self, link: Link, action: Callable[[], None]) -> None:
        if link.id in self._only.delivery.attachments:
            action()
        else:
            self._only.presence.connect_for_query()
            self._only.pending.when_known(action)

    def subscribed(self) -> None:
        self._only.presence.connect_for_query()

    def session_for_listener(self, _wanted: str, _principal: str) -> Session | None:
        return self._session_for_new()

    def open_session(self, link: Link, _command: OpenSession | ResumeSession) -> Session | None:
        session = self._session_for_new()
        if not self._sessions.policy.opens(link.principal, session.state):
            raise Refused(HELD)
        return session

    def resume_session(self, link: Link, command: ResumeSession) -> Session | None:
        sessions, own = self._sessions, self._session_for_new()  # first, so that its names are known
        is_own = sessions.index.find_session(command.session) is own and not sessions.is_foreign(link, command.session)
        if not link.dialect.resumes_unknown and not is_own:
            raise Refused(not_found(command.session))
        return self.open_session(link, command)
