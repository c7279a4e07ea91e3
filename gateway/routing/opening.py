"""Sessions that are not open here: new ones, and those that the backend may have in its store (design.md, 5)."""

from __future__ import annotations

from msgspec import structs

from gateway.link import Link
from gateway.routing.ids import canonical_id
from gateway.routing.sessions import Sessions
from mappings.canonical import Command
from mappings.canonical.commands import (
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
from mappings.dialect import NewId

__all__ = ["Openings"]

OF_A_TURN = (CancelTurn, PauseTurn, ResumeTurn, AnswerApproval, AnswerOtp, AnswerInteraction)
"""What is about a turn: none is open in a session that is not."""


class Openings:
    """Asks the backend of one route for sessions."""

    def __init__(self, route: str, sessions: Sessions, new_id: NewId) -> None:
        self._route = route
        self._all = sessions
        self._new_id = new_id

    def may_be_kept(self, command: Command) -> bool:
        """Whether a command is about a session that its backend may have in its store, and is not open here."""
        if not command.session or not self._all.keeps or isinstance(command, OF_A_TURN):
            return False
        return self._all.roster.named(command.session) is None

    def find(self, link: Link, command: Command) -> None:
        """The backend is asked for the session that this command names, and then the command is acted on."""
        self.ask(link, GetSession(request=command.request, session=command.session), command)

    def ask(self, link: Link, command: OpenSession | ResumeSession | GetSession, then: Command | None = None) -> None:
        """A backend that opens conversations is asked for this one, under a session of its own.

        One that carries many calls it as the client does, and what a list told of has a name; elsewhere a name may be
        a client's own, of a conversation that the backend is to go on with under another.
        """
        listed = self._all.listed(command.session)
        if listed is not None and isinstance(command, GetSession):
            command = ResumeSession(request=command.request, session=listed.session)
        elif listed is not None:
            command = structs.replace(command, session=listed.session)
        named = isinstance(command, OpenSession) or self._all.many is not None or listed is not None
        name = command.session if named else ""
        session = self._all.make(canonical_id(self._route, name) if name else self._new_id())
        if listed is not None:
            session.state.listed, session.state.updated_at = listed, listed.updated_at
        self._all.claim(link, session)
        session.delivery.enter()
        session.open(link, command if isinstance(command, GetSession) else self._all.complete(command), then)
