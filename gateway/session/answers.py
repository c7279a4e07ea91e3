"""The backend's answers: each goes to the link that asked, not into the log, and once
(docs/translation.md, rule 3.18).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET, structs

from dragoman.gateway.session.inflight import OPENING, Pending
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import (
    ArchiveSession,
    CancelTurn,
    RenameSession,
    SubmitInput,
    UnarchiveSession,
)
from dragoman.mappings.canonical.events import (
    CompletionsListed,
    HistorySnapshot,
    InteractionInvalid,
    OtpInvalid,
    OtpVerified,
    PodAttached,
    PodInspected,
    Pong,
    Reply,
    SessionOpened,
    SessionsListed,
    TurnAccepted,
)
from dragoman.mappings.canonical.values import Cause, Failure
from dragoman.mappings.dialect import Loss

if TYPE_CHECKING:
    from dragoman.gateway.session.session import Session

__all__ = ["ADDRESSED", "Answers", "answers_one"]

ANSWERS = frozenset(
    {TurnAccepted, Reply, CompletionsListed, SessionsListed, SessionOpened, PodInspected, PodAttached, Pong}
)

ASKED_FOR = frozenset({HistorySnapshot, OtpVerified, OtpInvalid, InteractionInvalid})

ADDRESSED = ANSWERS | ASKED_FOR
"""Types that may answer a command; of the latter those that name its request, else they are told to everybody."""


def answers_one(event: Any) -> bool:
    """Whether an event answers one command."""
    return type(event) in ANSWERS or (type(event) in ASKED_FOR and bool(event.request))


class Answers:
    """The answers to the commands of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def take(self, event: Any, at: int) -> None:
        """The backend answers one command, or somebody else's."""
        session = stands = self._session
        if isinstance(event, SessionOpened):
            session.state.backend_ids = {**(event.ext or {}), **(session.state.chosen_ids or {})}
            session.state.title = event.title or session.state.title
            stands = session.changed(session, event.session)
            if not event.request:
                return  # opened for what waited, or resumed: nobody asked
        if isinstance(event, TurnAccepted):
            event = session.inputs.said_again(event)
        pending = session.in_flight.get(event.request)
        if pending is None:
            if not session.inputs.taken_late(event, at):
                loss = Loss(kind=type(event).__name__, why="answers no command of ours")
                session.ledger.record([loss], session=session.state.id)
            return
        if isinstance(event, TurnAccepted):
            session.settle(event.request)
            session.inputs.accepted(pending, at)
        elif isinstance(event, SessionOpened):
            session.settle(event.request)
            self._opened(stands, pending, event)
        elif isinstance(event, Reply):
            self.give(event.request, event.failure, event)
        elif isinstance(event, OtpVerified | OtpInvalid | InteractionInvalid):
            session.settle(event.request)
            session.questions.judged(pending, event)
        elif pending.link is not None:
            session.settle(event.request)
            pending.link.send([structs.replace(event, request=pending.command.request)])
            session.delivery.count([event], pending.link.dialect)

    def _opened(self, session: Session, pending: Pending, event: SessionOpened) -> None:
        """Show the client that asked the session which the backend opened or found."""
        link = pending.link
        session.state.agent = event.agent or session.state.agent
        if link is None or not link.alive:
            return
        if pending.then is None:
            session.attach(link, pending.command.request)
        else:
            session.attach(link)
            session.command(link, pending.then)

    def give(self, request: str, failure: Failure | None, event: Reply | None = None) -> None:
        """Tell who asked that it is done, or why not."""
        session = self._session
        pending = session.settle(request)
        if pending is None:
            return
        if failure is not None and isinstance(pending.command, CancelTurn | SubmitInput):
            session.cancelling.over()
        if isinstance(pending.command, OPENING) and session.state.backend_ids is None:
            session.changed(session, "")  # it was not opened: nothing of it remains
        if isinstance(pending.command, CancelTurn) and failure is not None and failure.cause == "unsupported":
            # It does not know the word: the turn ends for its clients (docs/translation.md, rule 3.4). Other refusals
            # end nothing.
            session.cancelling.force()
            failure = None
        if isinstance(pending.command, RenameSession) and self._row(pending, failure):
            return
        if failure is None:
            self._done(pending.command)
        if session.questions.replied(pending, failure) or pending.link is None:
            return
        result = event.result if event is not None else UNSET
        pending.link.send([Reply(request=pending.command.request, failure=failure, result=result)])

    def _row(self, pending: Pending, failure: Failure | None) -> bool:
        """Answer a rename with the row of the session; return whether its caller waits for one.

        Where the backend keeps no titles the gateway does. A backend of the caller's dialect answers with its own row.
        """
        session, link = self._session, pending.link
        if link is None or link.attaches or (failure is not None and failure.cause != "unsupported"):
            return False
        if failure is None and session.upstream.name == link.dialect.name:
            return False
        self._done(pending.command)
        link.attach(session.state, pending.command.request)
        return True

    def _done(self, command: Command) -> None:
        """What a backend did that tells nobody of it but who asked."""
        session = self._session
        if isinstance(command, RenameSession) and session.state.title != command.title:
            session.entitle(command.title)
        elif isinstance(command, ArchiveSession | UnarchiveSession):
            session.state.archived = isinstance(command, ArchiveSession)

    def miss(self, request: str) -> None:
        """The backend did not answer in time."""
        session = self._session
        pending = session.in_flight.get(request)
        if pending is not None:
            session.inputs.give_up(pending, request)
        cause: Cause = "busy" if pending is not None and isinstance(pending.command, OPENING) else "timeout"
        self.give(request, Failure(cause=cause, text="the backend did not answer in time"))
