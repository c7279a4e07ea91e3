"""The context that the parts of one session share, and the effects that they ask it for.

No part knows the session itself: session.py builds the parts, and performs their effects.
"""

from __future__ import annotations

from typing import Protocol

import structlog
from msgspec import Struct

from dragoman.gateway.config.model import RouteOptions
from dragoman.gateway.services import Services
from dragoman.gateway.session.delivery import Delivery
from dragoman.gateway.session.normal_form import NormalForm
from dragoman.gateway.session.ports import Client
from dragoman.gateway.session.runs import Run
from dragoman.gateway.session.turn_states import TurnStates
from dragoman.mappings.canonical import Command, Event, SessionState
from dragoman.mappings.canonical.events import SessionOpened
from dragoman.mappings.canonical.values import Failure, Segment
from dragoman.mappings.dialect import Dialect

__all__ = ["Effects", "SessionContext"]


class Effects(Protocol):
    """What the parts of a session have it do."""

    def deliver(self, runs: list[Run], at: int) -> None:
        """Log what happened and give it to every client."""

    def say(self, event: Event) -> None:
        """Tell the clients something that the gateway itself says."""

    def write(self, command: Command) -> None:
        """Write a command to the backend."""

    def forward(self, link: Client | None, command: Command, segments: tuple[Segment, ...] = ()) -> str:
        """Write a command to the backend under a request id of our own; return that id, or "" if it was refused."""

    def command(self, link: Client, command: Command) -> None:
        """Act on a command of an attached link."""

    def opened(self, event: SessionOpened) -> Effects:
        """Take the names that the backend gave; return the session that clients are shown for this one."""

    def refused(self) -> None:
        """Drop the session: its backend did not open it."""

    def show(self, link: Client, request: str, event: SessionOpened, then: Command | None) -> None:
        """Attach the client that had the session opened, and act on what it asked of it."""

    def entitle(self, title: str) -> None:
        """Give the session a title."""

    def give_up(self, failure: Failure) -> None:
        """Fail the open turn, and all that waits for the backend."""

    def note_quiet(self) -> None:
        """Take note that a turn or input may have begun or ended."""


class SessionContext(Struct, frozen=True, kw_only=True):
    """What all parts of one session work on."""

    state: SessionState
    route: RouteOptions
    upstream: Dialect
    services: Services
    form: NormalForm
    states: TurnStates
    delivery: Delivery
    log: structlog.stdlib.BoundLogger
