"""Find out whether the gateway is ready for clients, and why not (docs/operations.md, section 2).

Facts that the gateway has are read in its event loop. The thread of the ops port checks the others: a backend without a
connection, and the disk of the recordings.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct, structs

from dragoman.gateway.app import App
from dragoman.gateway.backends.status import BackendStatus
from dragoman.gateway.config.model import Config, Route
from dragoman.gateway.config.startup import find_missing_program, probe, why_unwritable
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.ops.gateway_loop import GatewayLoop
from dragoman.gateway.overload.descriptors import descriptor_shortage
from dragoman.gateway.recording.parts import RETRY
from dragoman.mappings.rfc3339 import NS

Status = Literal["ready", "not ready", "starting", "draining"]

PROBE_DEADLINE = 1.0  # seconds to connect to a backend of another machine: probes wait for that long by default
PROBE_EVERY = 1.0  # seconds for which the result of a probe is reused, so that many requests make few connections


class Check(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A condition of readiness. `cause` says why it does not hold."""

    name: str
    ready: bool
    cause: str = ""


class Liveness(Struct, frozen=True, kw_only=True):
    """The answer of /livez. `stuck_for` is how many seconds the event loop is late."""

    live: bool
    stuck_for: float = 0.0


class Readiness(Struct, frozen=True, kw_only=True):
    """The answer of /readyz. `checks` are those that do not hold, or all of them if that was asked for."""

    ready: bool
    status: Status
    checks: list[Check] = []


class Health:
    """The checks of a gateway. Use it in one event loop, which may be another than the gateway's."""

    def __init__(self, gateway: App, loop: GatewayLoop) -> None:
        self._gateway = gateway
        self._loop = loop
        self._probed: dict[Endpoint, tuple[float, str]] = {}  # upstream -> when a probe ended, and what it found

    async def find_readiness(self) -> Readiness:
        """Return all checks; raise TimeoutError if the loop of the gateway does not answer."""
        gateway = self._gateway
        if gateway.stop.is_set():
            return _unready("draining", "the gateway stops: it accepts no client, and open turns finish")
        if not gateway.ready.is_set():
            return _unready("starting", "not every listener accepts clients yet")
        known = await self._loop.ask(lambda: _known(gateway), at_once=True)
        routes = await asyncio.gather(*(self._check_route(route, known) for route in gateway.config.routes))
        checks = [*known.checks, *routes]
        checks += await asyncio.to_thread(lambda: list(self._check_recording()))
        ready = all(check.ready for check in checks)
        return Readiness(ready=ready, status="ready" if ready else "not ready", checks=checks)

    async def _check_route(self, route: Route, known: _Known) -> Check:
        name, status = f"route {route.name}", known.backends.get(route.name)
        if route.name in known.circuits:
            return await self._check_upstreams(name, route, known.circuits[route.name])
        cause = ""
        if status is not None and not status.heard:
            cause = _fault(route, status, self._gateway.config) or await self._probe(route, route.upstream)
        return Check(name=name, ready=not cause, cause=cause)

    async def _check_upstreams(self, name: str, route: Route, circuits: dict[Endpoint, str]) -> Check:
        """Check a route with several upstreams. It is ready if one of them is; the cause names the others anyway.

        `circuits` has the faults of open circuits, "" for an upstream whose circuit is not open.
        """
        causes = [
            f"{upstream.masked}: its circuit is open: {fault}" if fault else await self._probe(route, upstream)
            for upstream, fault in circuits.items()
        ]
        return Check(name=name, ready=not all(causes), cause="; ".join(filter(None, causes)))

    async def _probe(self, route: Route, upstream: Endpoint) -> str:
        """Return why an upstream of a route cannot be reached now, or ""."""
        at, found = self._probed.get(upstream, (0.0, ""))
        if time.monotonic() - at < PROBE_EVERY:
            return found
        if upstream.is_command:
            found = find_missing_program(route, upstream, self._gateway.config)
        else:
            limits = structs.replace(self._gateway.config.limits, connect_deadline=PROBE_DEADLINE)
            alone = structs.replace(route, upstream=upstream, failover=(), limits={})
            (found,) = await probe(Config(routes=(alone,), limits=limits), starting=True)
        self._probed[upstream] = time.monotonic(), found
        return found

    def _check_recording(self) -> Iterator[Check]:
        """Check that recordings can be written. A file that failed is tried again after RETRY."""
        options, recordings = self._gateway.config.recording, self._gateway.recordings
        if options is None or recordings is None:
            return
        cause = why_unwritable(options.path)
        if not cause and recordings.writer.failure is not None:
            text, at = recordings.writer.failure
            cause = text if time.monotonic() - at < RETRY else ""
        yield Check(name="recording", ready=not cause, cause=f"{options.path}: {cause}" if cause else "")


class _Known(Struct, frozen=True, kw_only=True):
    """The facts that the gateway knows by itself: checks, and the connections to its backends."""

    checks: list[Check]
    backends: dict[str, BackendStatus]
    circuits: dict[str, dict[Endpoint, str]]
    """The upstreams of each route that has several, with the faults of those whose circuit is open."""


async def _known(gateway: App) -> _Known:
    gone = ", ".join(gateway.unreachable_listeners)
    refusals = {
        "gateway": f"no client can connect, because the file of the socket is gone or replaced: {gone}" if gone else "",
        "memory": gateway.memory.refusal(),
        "descriptors": descriptor_shortage(),
    }
    return _Known(
        checks=[Check(name=name, ready=not cause, cause=cause) for name, cause in refusals.items()],
        backends={name: structs.replace(status) for name, status in gateway.upstreams.statuses.items()},
        circuits={
            name: {one.endpoint: one.fault if one.breaker.state == "open" else "" for one in pool.upstreams}
            for name, pool in gateway.upstreams.pools.items()
        },
    )


def _fault(route: Route, status: BackendStatus, config: Config) -> str:
    """Return the reason why the last connection failed; "" if the next one may succeed."""
    if status.wanted:
        return status.fault
    age = (time.time_ns() - status.fault_at) / NS
    # No connection is tried now. Only a child cannot be probed: it may die again.
    window = route.apply_limits(config.limits).restart_window
    return status.fault if route.upstream.is_command and age < window else ""


def _unready(status: Status, cause: str) -> Readiness:
    return Readiness(ready=False, status=status, checks=[Check(name="gateway", ready=False, cause=cause)])
