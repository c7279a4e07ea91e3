"""The context that the parts of one session share, and the effects that all of them have on it.

No part knows the session itself: session.py builds the parts, and performs their effects. `Effects` is a protocol and
not a list of values as in mappings, because most effects must be done at once: an input is accepted before the events
behind it are read, a request has its id before its answer comes in the same call. docs/design.md, section 5, has the
figures.
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
from dragoman.gateway.session.runs import Run
from dragoman.gateway.session.turn_states import TurnStates
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.dialect import Dialect

log = structlog.get_logger("dragoman.session")


class Effects(Protocol):
    """The effect that every part has on its session; a part with further ones extends this protocol."""

    def deliver(self, runs: list[Run], at: int) -> None:
        """Append runs to the log, and give them to every client."""


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

    @property
    def log(self) -> structlog.stdlib.BoundLogger:
        """The log, with the id that the session has now and its owner."""
        bound: structlog.stdlib.BoundLogger = log.bind(session=self.state.id, principal=self.state.owner)
        return bound
