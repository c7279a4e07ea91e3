"""The objects that the parts of a session's delivery share."""

from __future__ import annotations

from msgspec import Struct

from dragoman.gateway.config.model import RouteOptions
from dragoman.gateway.services import Services
from dragoman.gateway.session.log import Log
from dragoman.gateway.session.ports import EventRecorder
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.dialect import Dialect


class DeliveryContext(Struct, frozen=True, kw_only=True):
    """The state and the log of one session, and how its events are delivered. Without `recorder` they are not recorded.

    `upstream` is the dialect of the backend.
    """

    state: SessionState
    log: Log
    services: Services
    route: RouteOptions
    upstream: Dialect
    recorder: EventRecorder | None = None
