"""A backend that can be dialled, and the logs and counters of the connections to it.

Each change is logged, not each attempt. A connection over which the backend has sent nothing counts as a failure: for
the circuit of its upstream, if the route has several, and for the attempts that the route may make.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import structlog
from msgspec import Struct, field

from dragoman.gateway.backends.dials import RouteDials
from dragoman.gateway.backends.failover import FailoverConnection
from dragoman.gateway.backends.spare_children import SpareChildren
from dragoman.gateway.backends.status import BackendStatus
from dragoman.gateway.first_frames import FirstFrames
from dragoman.gateway.observability import logs
from dragoman.gateway.transports.spec import Connect
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.dialect import Clock, Dialect

if TYPE_CHECKING:
    from dragoman.gateway.recording.recorder import Tap

UNHEARD = "the connection ended before the backend sent anything"

log = structlog.get_logger("dragoman.upstream")


class UpstreamTarget(Struct, frozen=True, kw_only=True):
    """A backend that can be dialled by `connect`.

    `endpoint` names it in logs, `tap` records the connection, and `status` counts it. `headers` returns the headers for
    the handshake with a WebSocket. `failover` is set if the route has several upstreams: `connect` is a method of it
    then. `dials` is shared by all sessions of the route, and `children` by those of all routes.
    """

    endpoint: str
    dialect: Dialect
    connect: Connect
    dials: RouteDials
    tap: Tap | None = None
    headers: Callable[[], Mapping[str, str]] = dict
    status: BackendStatus = field(default_factory=BackendStatus)
    failover: FailoverConnection | None = None
    children: SpareChildren = field(default_factory=SpareChildren)


class ConnectionReport:
    """Reports the connections of a session to `target`; `endpoint` is the one that was dialled last."""

    __slots__ = ("_about", "_clock", "_complaint", "_is_reached", "_target", "endpoint")

    def __init__(self, about: SessionState, target: UpstreamTarget, clock: Clock) -> None:
        self._about = about
        self._target = target
        self._clock = clock
        self._is_reached = True
        self._complaint = ""  # the last logged complaint about a backend of another dialect
        self.endpoint = target.endpoint

    def note_unreachable(self, why: str) -> None:
        if self._is_reached:
            self._log("warning", "backend not reachable, trying again", cause=why)
        self._is_reached = False
        self._target.status.note_fault(why, self._clock())

    def note_reached(self) -> None:
        self._is_reached = True
        if self._target.failover is not None:
            self.endpoint = self._target.failover.endpoint

    def note_unused(self) -> None:
        """Note that a new connection is closed immediately, because it is not needed any more."""
        if self._target.failover is not None:
            self._target.failover.note_end("")

    def note_start(self) -> None:
        if not self._complaint:
            self._log("info", "backend connected")
        self._target.status.connected += 1

    def note_heard(self) -> None:
        self._target.status.note_heard()
        if self._target.failover is not None:
            self._target.failover.note_heard()

    def note_wrong_dialect(self, first: FirstFrames) -> None:
        """Log that the backend speaks another dialect, once until it changes."""
        complaint = first.complaint(quoted=True)
        if complaint != self._complaint:
            self._log("warning", "backend of another dialect, trying again", cause=f"{self.endpoint} {complaint}")
        self._complaint = complaint

    def note_lost(self, text: str, reason: str, *, is_wrong: bool) -> None:
        """Note that a connection was lost, before it is closed. If the dialect `is_wrong`, that was logged."""
        if not is_wrong:
            self._complaint = ""
            self._log("warning", "backend lost, connecting again", **({"cause": reason} if reason else {}))
        self._target.status.note_fault(f"{text}: {reason}" if reason else text, self._clock())

    def note_end(self, *, heard: bool, by_peer: bool) -> None:
        """Note that a connection is closed.

        `heard`: the backend had sent something. `by_peer`: the backend ended the connection.
        """
        status = self._target.status
        status.connected -= 1
        status.heard -= heard
        status.dropped += heard and by_peer
        fault = UNHEARD if by_peer and not heard else ""
        if fault:
            self._target.dials.note_failure(self.endpoint, fault)
        if self._target.failover is not None:
            self._target.failover.note_end(fault)

    def _log(self, level: str, text: str, **details: str) -> None:
        if logs.LEVEL.passes("upstream", level):
            getattr(log, level)(text, session=self._about.id, endpoint=self.endpoint, **details)
