"""Open sessions that are not open here: new ones, and those that the backend may have (docs/design.md, section 5)."""

from __future__ import annotations

from msgspec import structs

from dragoman.gateway.backends.asking import Refused
from dragoman.gateway.backends.kind import BackendKind, not_found
from dragoman.gateway.link import Link
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import GetSession, OpenSession, ResumeSession

__all__ = ["SessionOpener"]


class SessionOpener(BackendKind):
    """A backend that opens sessions for clients."""

    def open_session(self, link: Link, command: OpenSession | ResumeSession) -> Session | None:
        self._ask(link, command)
        return None

    def resume_session(self, link: Link, command: ResumeSession) -> Session | None:
        if self._sessions.index.find_session(command.session) is not None:
            # A foreign one: the backend is asked by a name that nobody has, so its answer is that of an unknown one.
            command = structs.replace(command, session=self._services.new_id(), ext=None)
        return self.open_session(link, command)

    def get_session(self, link: Link, command: GetSession) -> None:
        if self._sessions.index.find_session(command.session) is not None:  # a foreign one is as unknown as any
            raise Refused(not_found(command.session))
        self._seek(link, command)

    def _seek(self, link: Link, command: GetSession, then: Command | None = None) -> None:
        """Ask the backend for a session by the name that a client has for it, then act on `then`."""
        self._ask(link, command, then)

    def _new_session(self, link: Link, name: str) -> Session:
        """Return a new session for `link`, which asks for it by `name`, "" for any."""
        raise NotImplementedError

    def _ask(
        self, link: Link, command: OpenSession | ResumeSession | GetSession, then: Command | None = None
    ) -> None:  # fmt: skip
        """Ask the backend to open this session, and act on `then` once it is open.

        A name that a list gave to a client is translated into the backend's own.
        """
        listed = self.listed(command.session)
        if listed is not None and isinstance(command, GetSession):
            command = ResumeSession(request=command.request, session=listed.session)
        elif listed is not None:
            command = structs.replace(command, session=listed.session)
        session = self._new_session(link, command.session)
        if isinstance(command, OpenSession):
            self._sessions.choose(link, session, command.session)
        if listed is not None:
            session.state.listed, session.state.updated_at = listed, listed.updated_at
        session.delivery.enter()
        session.open(link, command if isinstance(command, GetSession) else self._sessions.complete(command), then)
