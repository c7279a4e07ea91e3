"""Cancelling a turn (docs/translation.md, rule 3.4): asked of the backend, and done without it when it cannot or
does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.gateway.link import Link
from dragoman.gateway.session.turn_states import CancelState, Trigger
from dragoman.gateway.timers import Timer
from dragoman.mappings.canonical.commands import CancelTurn

if TYPE_CHECKING:
    from dragoman.gateway.session.session import Session

__all__ = ["Cancelling"]


class Cancelling:
    """The cancel that is under way in one session, if any."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._deadline: Timer | None = None

    def ask(self, link: Link | None, command: CancelTurn) -> None:
        """Ask the backend to end the open turn; it has until the deadline."""
        session = self._session
        if not session.busy and session.state.status != "running":  # a resumed run may not have said anything yet
            if link is not None:
                session.refuse(link, command.request, "not_running", "no turn is in progress")
            return
        if session.reconnect.severed:
            session.reconnect.hold(link, command)
            return
        if session.busy and session.states.cancel is CancelState.NONE:
            session.states.on(Trigger.CANCELLED)
            self._deadline = session.later(session.limits.cancel_deadline, self._expire)
        session.forward(link, command)

    def _expire(self) -> None:
        self._session.log.warning("backend did not end the cancelled turn in time, ending it for its clients")
        self.force()

    def force(self) -> None:
        """End the turn for its clients: the backend has no cancel, or did not end it in time."""
        self.over()
        session = self._session
        now = session.clock()
        unaccepted = session.inputs.accept_waiting(now)
        if session.state.turn is not None:
            session.answer_all(CancelTurn)  # an error later would end the turn a second time
            session.deliver(session.form.cut("cancelled", None, now, discard=not unaccepted), now)

    def over(self) -> None:
        """There is nothing to cancel any more: the deadline must not end the next turn."""
        self._session.states.on(Trigger.CANCEL_OVER)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
