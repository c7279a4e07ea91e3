"""Show clients the sessions that they ask for, and delete sessions at their request."""

from __future__ import annotations

from functools import partial

from dragoman.gateway.backends.kind import BackendKind
from dragoman.gateway.link import Link
from dragoman.gateway.observability import audit
from dragoman.gateway.routing.quota import Refused
from dragoman.gateway.routing.session_finder import SessionFinder, refuse_unknown
from dragoman.gateway.routing.sessions import Sessions
from dragoman.gateway.services import Services
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical.commands import DeleteSession, GetSession, ListSessions, ResumeSession
from dragoman.mappings.canonical.events import Reply, SessionClosed, SessionOpened, SessionsListed


class SessionQueries:
    """The answers to clients that ask for one session of a route, or delete one."""

    def __init__(self, sessions: Sessions, backend: BackendKind, finder: SessionFinder, services: Services) -> None:
        self._sessions = sessions
        self._backend = backend
        self._finder = finder
        self._services = services

    def show_session(self, link: Link, session: Session, request: str, agent: str = "") -> None:
        """Answer with a session, and attach the client to it."""
        state = session.state
        session.delivery.enter()
        if link.id in session.delivery.attachments:
            opened = SessionOpened(
                request=request,
                session=state.id,
                agent=agent or state.agent,
                title=state.title,
                status=state.status,
                ext=state.ids,
            )
            link.send([opened])
        else:
            self._sessions.claim(link, session)
            session.presence.attach(link, request)

    def get_session(self, link: Link, command: GetSession) -> None:
        """Answer a client that looks at a session, or let the backend answer it."""
        session = self._finder.find_session(link, command.session)
        if session is not None:
            self.show_session(link, session, command.request)
        elif self._sessions.past.is_hidden(command.session):
            refuse_unknown(link, command)
        else:
            try:
                self._backend.get_session(link, command)
            except Refused as refused:
                link.send([Reply(request=command.request, failure=refused.failure)])

    def describe_own(self, link: Link, command: ListSessions | GetSession | ResumeSession) -> None:
        """Answer a client whose listener shows one session: with that, or with those of the listener's directory."""
        own = self._sessions.entrances.find_session(link.ingress)
        if own is not None and link.ingress.about_pods is not None:
            sees = partial(self._sessions.policy.sees, link.principal)
            link.send([link.ingress.about_pods(command, own.state, sees)])
        elif own is not None and isinstance(command, ListSessions):
            link.send([SessionsListed(request=command.request, sessions=(own.summary(),))])
        elif own is not None and command.session in ("", own.state.id):
            self.show_session(link, own, command.request)
        else:
            refuse_unknown(link, command)

    def delete_session(self, link: Link, command: DeleteSession) -> None:
        """Forget a session whose backend cannot delete it, and hide it from all clients."""
        session = self._finder.find_session(link, command.session)
        listed = self._backend.listed(command.session)
        past = self._sessions.past
        if session is not None and self._backend.cannot_delete:
            link.refuse(command.request, "unsupported", self._backend.cannot_delete)
            return
        if session is not None:
            past.hide(self._sessions.index.names(session))
            session.delivery.enter()
            audit.note("close", link, session=session.state.id)
            session.describe(SessionClosed)
            self._sessions.drop(session)
        elif listed is not None and not past.is_hidden(command.session):
            past.hide((command.session, listed.session))
        else:
            refuse_unknown(link, command)
            return
        link.send([Reply(request=command.request)])
