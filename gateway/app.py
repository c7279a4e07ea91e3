"""Run the gateway: its listeners, links, tasks and shutdown.

All tasks run in the TaskGroup of the app; every task has a name and an owner. On SIGTERM the app stops
accepting, lets turns finish until the deadline, notifies and closes the clients, and returns. A second SIGTERM, or
SIGQUIT, ends it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog
from msgspec import structs

from dragoman.adapters.base import Transport, do_nothing
from dragoman.gateway import registry
from dragoman.gateway.clients import ClientPort, Clients, ListenerTarget
from dragoman.gateway.config.model import Config, Route
from dragoman.gateway.identity.listeners import Identities
from dragoman.gateway.ingress import Ingress
from dragoman.gateway.link import Link
from dragoman.gateway.listeners import Listeners, new_id
from dragoman.gateway.observability.ledger import MISSED_BY_NOBODY, Ledger
from dragoman.gateway.observability.trace_context import TraceContext
from dragoman.gateway.observability.turn_watch import TurnWatch
from dragoman.gateway.overload.memory import MemoryBudget, default_limit
from dragoman.gateway.process.signals import stop_on_signals
from dragoman.gateway.recording.in_force import RecordingsInForce
from dragoman.gateway.reload import ConfigStatus
from dragoman.gateway.routes import Routes
from dragoman.gateway.routing.past_sessions import KnownBackends
from dragoman.gateway.routing.router import Router
from dragoman.gateway.routing.sessions import RouteEvents
from dragoman.gateway.services import Services
from dragoman.gateway.session.runs import Run
from dragoman.gateway.session.session import Session
from dragoman.gateway.transports import Children
from dragoman.gateway.transports.stdio import route_spawner
from dragoman.gateway.upstreams import MakeInProcess, Upstreams
from dragoman.mappings.canonical import SessionState, events
from dragoman.mappings.dialect import Dialect
from dragoman.mappings.errors import DragomanError

if TYPE_CHECKING:
    from dragoman.gateway.observability.tracing import Telemetry
    from dragoman.gateway.recording.recordings import Recordings

COLLECT = (2_500, 0, 2_500)
"""Thresholds: at most 5,000 new objects (2 to 5 ms) at once, half of them twice, and all once in 12.5 million
(docs/performance.md, "A turn"; docs/reliability.md, section 5).
"""

LOSSES_LOGGED = 100  # rows of the ledger that are logged at shutdown, the largest first

Listening = Callable[[str], None]
Meanwhile = Callable[[], Coroutine[Any, Any, None]]

log = structlog.get_logger("dragoman")


async def _change_nothing() -> None:
    """Do nothing: the configuration of this gateway does not change."""


async def _serve_until(stop: asyncio.Event, meanwhile: Meanwhile) -> float:
    """Run `meanwhile` until `stop` is set; once it has ended, return the time of the event loop when `stop` was set.

    A change of the configuration that goes on during the drain would open listeners again.
    """
    async with asyncio.TaskGroup() as group:
        task = group.create_task(meanwhile(), name="meanwhile")
        await stop.wait()
        stopped_at = asyncio.get_running_loop().time()
        task.cancel()
    return stopped_at


def _telemetry() -> Telemetry | None:
    """Return the telemetry that the environment configures. If it configures none, no module of it is imported."""
    if not any(name.startswith("OTEL_") for name in os.environ):
        return None
    from dragoman.gateway.observability.tracing import is_tracing_configured, start_telemetry

    return start_telemetry() if is_tracing_configured() else None


def _log_losses(ledger: Ledger) -> None:
    """Log the rows of the ledger; losses of mere bookkeeping appear at level DEBUG only."""
    for outcome, entries in (("not delivered", ledger.entries()), ("delivered without some fields", ledger.partial())):
        for entry in entries[:LOSSES_LOGGED]:
            (log.debug if entry.kind in MISSED_BY_NOBODY else log.info)(outcome, **structs.asdict(entry))


class App:
    """The running gateway: its listeners, links and routes.

    `make_backend` replaces dialling the route's upstream by a backend in this process. With `ends_with_client` a
    client's `shutdown` ends the app at once, as for a program that its client launched. `attend` is called with the
    session of a pod's folder whenever it is new or has changed, `on_run` with the events of any session.
    """

    def __init__(
        self,
        config: Config,
        *,
        make_backend: MakeInProcess | None = None,
        ends_with_client: bool = False,
        attend: Callable[[Session], None] = do_nothing,
        on_run: Callable[[Session, Run], None] = do_nothing,
    ) -> None:
        self.config = config
        self._make_backend = make_backend
        self._group: asyncio.TaskGroup
        self._services: Services
        self.children: Children
        self.upstreams: Upstreams
        self._clients: Clients
        self._routes: Routes
        self._ends_with_client = ends_with_client
        self._attend = attend
        self._on_run = on_run
        self._known_backends = KnownBackends()
        self._hurry = False
        self._owns_process = False  # else the garbage of the program around it must not be frozen
        self._fault: DragomanError | None = None  # the error that ended the gateway
        self.ledger = Ledger(times=config.ops is not None)
        self.memory = MemoryBudget(config.limits.memory or default_limit())
        self.config_status = ConfigStatus(since=time.time_ns())
        self._recordings = RecordingsInForce(config, self.ledger, self.memory)
        self._telemetry = _telemetry()
        spans = self._telemetry.spans if self._telemetry is not None else None
        self._watch = TurnWatch(time.monotonic_ns, self._trace_of, spans)
        self.stop = asyncio.Event()
        self.ready = asyncio.Event()  # set once every listener accepts clients

    async def run(self, listening: Listening = do_nothing, meanwhile: Meanwhile = _change_nothing) -> None:
        """Serve until `stop` is set.

        `listening` is called with each bound endpoint. `meanwhile` ends before the drain. Raise OSError if an endpoint
        cannot be bound. Raise the error given to `fail`, or the fault of the client that started this process.
        """
        self._recordings.open()
        self._services = Services(
            clock=time.time_ns,
            monotonic=time.monotonic_ns,
            new_id=new_id,
            schedule=asyncio.get_running_loop().call_later,
            start_task=self.spawn,
            limits=self.config.limits,
            ledger=self.ledger,
            dialects=registry.imported,
            all_dialects=registry.ours,
            memory=self.memory,
            stop=self.stop,
        )
        try:
            self.children = Children(self.config.limits.children)
            spawner = partial(route_spawner, self.children, inherit=self.config.inherit_env)
            self.upstreams = Upstreams(spawner, self._make_backend)
            self._clients = Clients(self._services, self._gone)
            listeners = Listeners(self._clients, self._attend)
            self._routes = Routes(self._clients, listeners, self._make_router, listening, self._stopped)
            async with self.children, asyncio.TaskGroup() as self._group:
                await self._serve_routes(meanwhile)
        finally:
            await self._recordings.close()
            if self._telemetry is not None:
                await self._telemetry.close()
        _log_losses(self.ledger)
        self._clients.admission.flush()
        log.info("stopped", **self.ledger.counters)
        if self._fault is not None:
            raise self._fault

    async def _serve_routes(self, meanwhile: Meanwhile) -> None:
        try:
            await self._routes.start(self.config.routes, Identities(self.config, self.ledger.counters))
            self.ready.set()
            if self._owns_process:
                gc.freeze()  # docs/measurements.md, section 3: a full collection need not scan what lives until the end
                gc.set_threshold(*COLLECT)
                gc.enable()  # the command line turned it off for the start
            await self._drain(await _serve_until(self.stop, meanwhile))
        finally:
            await self._close()

    async def change_config(self, config: Config) -> None:
        """Serve another configuration; if that fails, serve on as before, and raise ConfigError or OSError."""
        identities = Identities(config, self.ledger.counters)
        services = structs.replace(self._services, limits=config.limits)
        async with self._recordings.replaced(config) as is_new:
            await self._routes.change(config.routes, identities, services, records_anew=is_new)
        self._clients.end_revoked(identities.is_revoked)
        self.config = config
        self._services = services
        self.memory.change_limit(config.limits.memory or default_limit())
        self.children.change_most(config.limits.children)
        self.ledger.measure_times(wanted=config.ops is not None)

    async def reopen_listeners(self) -> list[str]:
        """Open again the listeners to which no client can connect; return why some cannot be opened."""
        return await self._routes.reopen_listeners()

    def note_config(self, status: ConfigStatus) -> None:
        """Store which configuration is in force, and why the last one was refused."""
        self.config_status = status

    def on_signals(self, reload: Callable[[], None] | None = None) -> None:
        """Handle the signals that end the app, and SIGHUP: the process is this app's own."""
        self._owns_process = True
        stop_on_signals(self.stop, reload, lambda: self.config.limits.drain_deadline)

    def fail(self, error: DragomanError) -> None:
        """Stop the app for an error, which `run` raises once all clients were told."""
        self._fault = error
        self.stop.set()

    @property
    def unreachable_listeners(self) -> list[str]:
        """The addresses of listeners that no client can reach: the socket's file was removed or replaced."""
        return self._routes.unreachable

    @property
    def certificate_ends(self) -> dict[str, float]:
        """The times at which the certificates of listeners expire, by the address of the listener."""
        listeners = (listener for running in self._routes.running for listener in running.listeners)
        return {one.address: one.certificate_end for one in listeners if one.certificate_end is not None}

    @property
    def waiting_links(self) -> int:
        """The number of links whose frames wait for a later step of the event loop."""
        return self._services.queue.waiting_links

    @property
    def recordings(self) -> Recordings | None:
        """The recordings, if anything is recorded."""
        return self._recordings.current

    @property
    def links(self) -> list[Link]:
        """The clients that are connected."""
        return list(self._clients.links.values())

    @property
    def routers(self) -> list[Router]:
        """The routers of all routes, in their order, and those that only older clients use."""
        return self._routes.routers

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        return self._group.create_task(work, name=name)

    def join(self, dialect: Dialect, transport: Transport) -> None:
        """Connect a client in this process to the first route; call this once the app is `ready`."""
        translator = dialect.server(time.time_ns, new_id, "")
        target = ListenerTarget(router=self.routers[0], identities=self._routes.identities)
        port = ClientPort(dialect=dialect, target=target, ingress=Ingress(endpoint="inside"))
        self._clients.welcome(port, transport, translator)

    async def _make_router(self, route: Route, services: Services) -> Router:
        def find_id(name: str) -> str:
            return router.find_id(name)

        def public_ids(state: SessionState) -> list[str]:
            dialects = [registry.dialect(endpoint.dialect) for endpoint in router.route.listen]
            return list(dict.fromkeys(name for one in dialects for name in one.public_ids(state.id, state.backend_ids)))

        plan = await self.upstreams.read_plan(route)
        recorder = self._recordings.make_recorder(route, find_id, public_ids)
        router = Router(
            route,
            services,
            registry.upstream(route.upstream),
            partial(self.upstreams.make_kind, route, recorder, plan),
            recorder,
            RouteEvents(on_run=partial(self._note_run, route.name), on_shutdown=self._on_shutdown),
            self._known_backends.sessions_of(route.upstreams),
        )
        return router

    async def _stopped(self, router: Router) -> None:
        self.upstreams.forget(router.backend)
        await self._recordings.release(router.recorder)

    def _gone(self, link: Link) -> None:
        if link.ingress.spawned:
            self._fault = link.fault
            self._hurry = not self.links  # no client is left to wait for a turn
            self.stop.set()

    # -- the end ---------------------------------------------------------------------------------------

    def _note_run(self, route: str, session: Session, run: Run) -> None:
        last = run.events[-1]
        if isinstance(last, events.TurnEnded):
            self.ledger.turns[route, last.end] += 1
        self._watch.note_run(session, run)
        self._on_run(session, run)

    def _trace_of(self, link: str) -> TraceContext | None:
        found = self._clients.links.get(link)
        return found.trace if found is not None else None

    def _on_shutdown(self, _link: Link) -> None:
        if self._ends_with_client:
            self._hurry = True
            self.stop.set()

    async def _drain(self, stopped_at: float) -> None:
        await self._routes.stop_accepting()
        if self._hurry:
            return
        if any(router.busy for router in self.routers):
            log.info("waiting for open turns to finish", seconds=self.config.limits.drain_deadline)
        with contextlib.suppress(TimeoutError):
            # The deadline counts from the signal: to close the listeners takes seconds under load.
            async with asyncio.timeout_at(stopped_at + self.config.limits.drain_deadline):
                await self._routes.finish_turns()

    async def _close(self) -> None:
        await self._routes.stop_accepting()
        self._services.queue.close_to_clients()  # further commands would delay the end, or open more sessions
        await self._routes.stop()
        self._clients.close()
