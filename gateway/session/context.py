"""The context that the parts of one session share: its state, and the objects that they all use.

No part knows the session itself: session.py builds the parts, and performs their effects (`ports.Effects`).
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog
from msgspec import Struct

from dragoman.gateway.config.model import RouteOptions
from dragoman.gateway.services import Services
from dragoman.gateway.session.delivery import Delivery
from dragoman.gateway.session.in_flight import InFlight
from dragoman.gateway.session.normal_form import NormalForm
from dragoman.gateway.session.ports import Effects
from dragoman.gateway.session.turn_states import TurnStates
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.dialect import Dialect, Loss

log = structlog.get_logger("dragoman.session")


class SessionContext(Struct, frozen=True, kw_only=True):
    """The state of one session, and the objects that all of its parts use."""

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
    def is_busy(self) -> bool:
        """True while a turn is open, or an input waits to be accepted."""
        return self.state.turn is not None or bool(self.in_flight.input)

    @property
    def may_run_unheard(self) -> bool:
        """True if the backend may run a turn, or know a question, that began before this gateway did.

        A turn that a lost connection of this gateway left open is cancelled over the next one. A pod reports with its
        history whether it runs, and the history may still come.
        """
        state = self.state
        if self.upstream.single_session and self.upstream.lost_turn == "goes_on":
            return state.snapshot_ext is None
        is_kept = self.upstream.lost_turn in ("kept", "reachable")
        return is_kept and state.backend_ids is not None and not state.abandoned

    @property
    def knows_more_than_backend(self) -> bool:
        """True if the history is answered from the transcript (docs/translation.md, rule 4.7)."""
        is_stored = self.upstream.stores_history and self.state.backend_ids is not None
        return not is_stored or self.state.forgotten is not None

    def count_losses(self, losses: Iterable[Loss]) -> None:
        """Count events of the backend, or fields of them, that no client gets."""
        self.services.ledger.record(losses, session=self.state.id, source=self.upstream.name)

    @property
    def log(self) -> structlog.stdlib.BoundLogger:
        """The log, with the id that the session has now and its owner."""
        bound: structlog.stdlib.BoundLogger = log.bind(session=self.state.id, principal=self.state.owner)
        return bound
