"""Find the session that a client means by a name. A foreign session is answered exactly like an unknown one."""

from __future__ import annotations

from dragoman.gateway.backends.kind import BackendKind, not_found
from dragoman.gateway.link import Link
from dragoman.gateway.observability import audit
from dragoman.gateway.routing.sessions import Sessions
from dragoman.gateway.services import Services
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.events import Reply


class SessionFinder:
    """The sessions of one route by the names that clients have for them."""

    def __init__(self, sessions: Sessions, backend: BackendKind, services: Services) -> None:
        self._sessions = sessions
        self._backend = backend
        self._services = services

    def find_session(self, link: Link, name: str) -> Session | None:
        """Return the session that `link` calls `name`, or its own for ""; None if there is none that it may see."""
        if not name:
            mine = self._sessions.index.sessions_of(link)
            return mine[0] if len(mine) == 1 else None
        session = self.find_named(name)
        if session is None or self._sessions.policy.sees(link.principal, session.state):
            return session
        audit.refuse(link, "the session belongs to another principal", session=session.state.id)
        return None

    def find_named(self, name: str) -> Session | None:
        """Return the session of this name, whoever owns it; a forgotten session may be restored."""
        return self._sessions.index.find_session(name) or self._backend.find_session(name)


def refuse_unknown(link: Link, command: Command) -> None:
    """Answer a command whose session nobody knows, or that the client may not see."""
    link.send([Reply(request=command.request, failure=not_found(command.session))])
