"""Limit the time for which a cancelled turn may go on (docs/translation.md, rule 3.4).

cancel_deadline   the backend has not ended the turn: it is ended for the clients, and further input is refused
accept_deadline   after that: the connection is closed if this ends the turn. The next input gets a new one.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.gateway.session.context import SessionContext
from dragoman.gateway.session.turn_states import TurnState
from dragoman.gateway.timers import Deadline


class CancelDeadline:
    """The running deadline of one session's cancel."""

    __slots__ = ("_context", "_timer")

    def __init__(self, context: SessionContext) -> None:
        self._context = context
        self._timer = Deadline(context.services.schedule)

    def begin(self, force: Callable[[], None]) -> None:
        """Start `cancel_deadline`, after which `force` ends the turn for its clients.

        Only the timer refers to `force`, and so to the session, which is freed without the garbage collector.
        """
        self._timer.start(self._context.services.limits.cancel_deadline, lambda: self._expire(force))

    def stop(self) -> None:
        """Stop the deadline: the turn has ended, or the cancel was refused."""
        self._timer.stop()

    def _expire(self, force: Callable[[], None]) -> None:
        self._context.log.warning("the backend did not end the cancelled turn in time; the gateway ends it for clients")
        force()
        self.note_discarded()

    def note_discarded(self) -> None:
        """Start `accept_deadline`, before which the backend must end a turn that is over for its clients."""
        self.stop()
        if not self._context.upstream.turn_outlives_connection:
            self._timer.start(self._context.services.limits.accept_deadline, self._disconnect)

    def _disconnect(self) -> None:
        if self._context.states.turn is not TurnState.DISCARDED:
            return
        if self._context.effects.backend.rest():
            self.note_discarded()  # other sessions need the connection
        else:
            self._context.log.warning("the backend went on with a turn that is over for clients; connection closed")
