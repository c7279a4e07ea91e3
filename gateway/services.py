"""The services that are injected into the parts of the gateway: time, ids, timers, limits, the ledger and the dialects.

A test passes a clock that it sets itself, ids that count, and timers that it fires.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from msgspec import Struct, field, structs

from dragoman.gateway.config.model import Limits, Route
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.overload.fair_queue import FairQueue
from dragoman.gateway.overload.memory import MemoryBudget
from dragoman.gateway.timers import Schedule
from dragoman.mappings.dialect import Clock, Dialect, NewId

StartTask = Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]


class Services(Struct, frozen=True, kw_only=True):
    """The clocks, id source, scheduler, tasks, limits, loss ledger, dialects and work queue of one gateway."""

    clock: Clock
    """Returns the time in nanoseconds since 1970, for events and logs. An operator or NTP may set it."""
    monotonic: Clock
    """Returns the nanoseconds of a monotonic clock, for durations."""
    new_id: NewId
    schedule: Schedule
    start_task: StartTask
    """Starts a coroutine as a task of the gateway. An error that the coroutine raises ends the gateway."""
    limits: Limits
    ledger: Ledger
    dialects: Callable[[], Mapping[str, Dialect]]
    """Returns the dialects of the clients and backends of this gateway, by name; a thread may add one at any time."""
    all_dialects: Callable[[], Mapping[str, Dialect]]
    """Imports and returns every dialect that a backend can speak."""
    memory: MemoryBudget = field(default_factory=MemoryBudget)
    queue: FairQueue = field(default_factory=FairQueue)
    tokens: dict[tuple[str, str], str] = field(default_factory=dict)
    """The bearer token that each client presented last, by route and principal, if the route passes it on.

    Tokens are kept in memory alone, and no log line, error or recording has one.
    """
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the gateway stops, after which no turn begins."""

    def for_route(self, route: Route) -> Services:
        return structs.replace(self, limits=route.apply_limits(self.limits)) if route.limits else self
