"""The context that the parts of one session share, and the effects that they have on it.

No part knows the session itself: session.py builds the parts, and performs their effects. `Effects` is a protocol and
not a list of values as in mappings, because most effects must be done at once (docs/design.md, section 5): an input is
accepted before the events after it are read, a request has its id before its answer comes in the same call.
"""

from __future__ import annotations

from typing import Protocol

import structlog
from msgspec import Struct

from dragoman.gateway.config.model import RouteOptions
from dragoman.gateway.services import Services
from dragoman.gateway.session.delivery import Delivery
from dragoman.gateway.session.in_flight import InFlight
from dragoman.gateway.session.normal_form import NormalForm
from dragoman.gateway.session.ports import Backend, Client
from dragoman.gateway.session.runs import Run
from dragoman.gateway.session.turn_states import TurnStates
from dragoman.mappings.canonical import Command, Event, SessionState
from dragoman.mappings.canonical.events import SessionOpened
from dragoman.mappings.canonical.values import Failure, SessionSummary
from dragoman.mappings.dialect import Dialect

log = structlog.get_logger("dragoman.session")


class Effects(Protocol):
    """The effects that the parts of a session have on it. A reload may give it another backend."""

    backend: Backend

    def deliver(self, runs: list[Run], at: int) -> None:
        """Append runs to the log, and give them to every client."""

    def tell_clients(self, event: Event) -> None:
        """Tell the clients something that the gateway itself says."""

    def note_quiet(self) -> None:
        """Take note that a turn or input may have begun or ended."""

    def give_up(self, failure: Failure) -> None:
        """Fail the open turn, and all that waits for the backend."""

    def opened(self, event: SessionOpened) -> Effects:
        """Take the names that the backend gave; return the session that clients are shown for this one."""

    def show(self, client: Client, request: str, event: SessionOpened, then: Command | None) -> None:
        """Attach the client that asked for the session, and perform the command that it sent for it."""

    def refused(self) -> None:
        """Drop the session: its backend did not open it."""

    def summary(self) -> SessionSummary:
        """Return the row of the session in a list."""

    def on_last_detach(self) -> None:
        """Take note that the last client has left."""

    def rested(self) -> None:
        """Take note that there was neither a client nor a turn for `session_ttl`."""


class SessionContext(Struct, frozen=True, kw_only=True):
    """The state and the collaborators of one session that all of its parts work on."""

    state: SessionState
    route: RouteOptions
    upstream: Dialect
    services: Services
    form: NormalForm
    states: TurnStates
    delivery: Delivery
    in_flight: InFlight
    effects: Effects

    @property
    def may_run_unheard(self) -> bool:
        """True if the backend may run a turn, or know a question, that began before this gateway did.

        A turn that a connection of this gateway left behind is cancelled over the next one. A pod tells with its
        history whether it runs, and that may still come.
        """
        state = self.state
        if self.upstream.single_session and self.upstream.turn_outlives_connection:
            return state.snapshot_ext is None
        return self.upstream.keeps_turns and state.backend_ids is not None and not state.abandoned

    @property
    def knows_more_than_backend(self) -> bool:
        """True if the history is answered from the transcript (docs/translation.md, rule 4.7)."""
        is_stored = self.upstream.stores_history and self.state.backend_ids is not None
        return not is_stored or self.state.forgotten is not None

    @property
    def log(self) -> structlog.stdlib.BoundLogger:
        """The log, with the id that the session has now and its owner."""
        bound: structlog.stdlib.BoundLogger = log.bind(session=self.state.id, principal=self.state.owner)
        return bound
