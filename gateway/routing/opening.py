"""Sessions that are not open here: new ones, and those that the backend may have in its store
(docs/design.md, section 5).
"""

from __future__ import annotations

from msgspec import structs

from dragoman.gateway.link import Link
from dragoman.gateway.routing.ids import canonical_id
from dragoman.gateway.routing.sessions import Sessions
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import (
    AnswerApproval,
    AnswerInteraction,
    AnswerOtp,
    CancelTurn,
    GetSession,
    OpenSession,
    PauseTurn,
    ResumeSession,
    ResumeTurn,
)
from dragoman.mappings.dialect import NewId

__all__ = ["Openings"]

OF_A_TURN = (CancelTurn, PauseTurn, ResumeTurn, AnswerApproval, AnswerOtp, AnswerInteraction)
"""Commands about an open turn: a session that is not open here has none."""


class Openings:
    """The requests to the backend of one route for sessions that are not open here."""

    def __init__(self, route: str, sessions: Sessions, new_id: NewId) -> None:
        self._route = route
        self._all = sessions
        self._new_id = new_id

    def may_be_kept(self, command: Command) -> bool:
        """Return True if the backend may have the session of this command in its store, though it is not open here."""
        if not command.session or not self._all.keeps or isinstance(command, OF_A_TURN):
            return False
        return self._all.roster.named(command.session) is None

    def find(self, link: Link, command: Command) -> None:
        """Ask the backend for the session that this command names, then act on the command."""
        self.get(link, GetSession(request=command.request, session=command.session), command)

    def get(self, link: Link, command: GetSession, then: Command | None = None) -> None:
        """Ask the backend for a session, once its list has told what clients of this dialect call its sessions.

        A smooth sessionId is derived from the canonical id: only a list can tell whose it is.
        """
        stored = self._all.stored
        if link.dialect.name == self._all.upstream.name or self._all.listed(command.session) or stored is None:
            self.ask(link, command, then)
        else:
            stored.ask(True, lambda _rows: self.ask(link, command, then) if link.alive else None)

    def ask(self, link: Link, command: OpenSession | ResumeSession | GetSession, then: Command | None = None) -> None:
        """Ask a backend that opens conversations for this one, and act on `then` once it is open.

        A name that a list gave to a client is translated into the backend's own. A backend that carries many sessions
        opens one under the id that it is asked for; any other tells the id, and the session is named after it.
        """
        listed = self._all.listed(command.session)
        if listed is not None and isinstance(command, GetSession):
            command = ResumeSession(request=command.request, session=listed.session)
        elif listed is not None:
            command = structs.replace(command, session=listed.session)
        if self._all.many is not None:
            name = command.session
            session = self._all.make(canonical_id(self._route, name) if name else self._new_id())
            self._all.claim(link, session)
        else:
            session = self._all.make_unopened(link)
        if isinstance(command, OpenSession):
            self._all.choose(link, session, command.session)
        if listed is not None:
            session.state.listed, session.state.updated_at = listed, listed.updated_at
        session.delivery.enter()
        session.open(link, command if isinstance(command, GetSession) else self._all.complete(command), then)
