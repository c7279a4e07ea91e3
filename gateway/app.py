"""Run the gateway: its listeners, links, tasks and shutdown.

The app has one TaskGroup and each link has its own; every task has a name and an owner. On SIGTERM the app stops
accepting, lets turns finish until the deadline, notifies and closes the clients, and returns. A second SIGTERM ends it
at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import time
from collections.abc import Callable, Coroutine
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import structlog
from msgspec import Struct, structs

from dragoman.adapters.base import CloseReason, Listener, Transport
from dragoman.gateway import registry
from dragoman.gateway.admission import Admission, address_of
from dragoman.gateway.backends.status import BackendStatus
from dragoman.gateway.config.model import Config, Route
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.identity.listeners import Identities
from dragoman.gateway.identity.principal import LOCAL, Principal, Refusal
from dragoman.gateway.identity.roles import roles_of
from dragoman.gateway.ingress import Ingress
from dragoman.gateway.ledger import Ledger
from dragoman.gateway.link import Link, LinkEvents, Peer
from dragoman.gateway.memory import MemoryBudget, default_limit
from dragoman.gateway.pods.directory import PodDirectory
from dragoman.gateway.pods.folder import PodFolder
from dragoman.gateway.router import Router
from dragoman.gateway.routing.sessions import RouteEvents
from dragoman.gateway.services import Services
from dragoman.gateway.session.runs import Run
from dragoman.gateway.session.session import Session
from dragoman.gateway.traffic import observed
from dragoman.gateway.transports.child_settings import route_spawner
from dragoman.gateway.transports.spec import Children, ListenerCallbacks
from dragoman.gateway.upstreams import MakeInProcess, Upstreams
from dragoman.mappings.canonical import Command, Event, SessionState, events
from dragoman.mappings.canonical.events import Reply
from dragoman.mappings.canonical.values import Cause, Failure
from dragoman.mappings.dialect import Dialect, Instance, Loss, Translator
from dragoman.mappings.errors import PeerError

if TYPE_CHECKING:
    from dragoman.gateway.recording.recordings import Recordings
    from dragoman.gateway.replay.playing import Replay

COLLECT = (50_000, 20, 50)  # garbage collection thresholds: the gateway creates few reference cycles
LOSSES_LOGGED = 100  # rows of the ledger that are logged at shutdown, the largest first

__all__ = ["App", "new_id"]

log = structlog.get_logger("dragoman")


def new_id() -> str:
    """Return a new UUID as text."""
    return str(uuid4())


def _recordings(config: Config, ledger: Ledger, memory: MemoryBudget) -> Recordings | None:
    """Return the recordings of a gateway whose configuration has any; without, their modules are not imported."""
    if config.recording is None:
        return None
    from dragoman.gateway.recording.recordings import Recordings

    return Recordings(config.recording, ledger, memory)


class ClientPort(Struct, frozen=True, kw_only=True):
    """The dialect, router and ingress that clients of one listener have in common, and the principal of the client."""

    dialect: Dialect
    router: Router
    ingress: Ingress
    principal: Principal | Refusal = LOCAL


class App:
    """The running gateway: its listeners, links and routes.

    `make_backend` replaces dialling the route's upstream by a backend in this process. With `ends_with_client` a
    client's `shutdown` ends the app at once, as for a program that its client launched. `attend` is called with the
    session of a pod's folder whenever it is new or has changed, `on_run` with the events of any session. `wrap`
    replaces the transport of each client that connects to a listener.
    """

    def __init__(
        self,
        config: Config,
        *,
        make_backend: MakeInProcess | None = None,
        ends_with_client: bool = False,
        attend: Callable[[Session], None] = lambda _session: None,
        on_run: Callable[[Session, Run], None] = lambda _session, _run: None,
        wrap: Callable[[Transport], Transport] = lambda transport: transport,
    ) -> None:
        self.config = config
        self._make_backend = make_backend
        self._group: asyncio.TaskGroup
        self._services: Services
        self.children: Children
        self._upstreams: Upstreams
        self._links: dict[str, Link] = {}
        self._listeners: list[Listener] = []
        self._routers: list[Router] = []
        self._numbers = count(1)
        self._keepers: list[asyncio.Task[None]] = []  # tasks that maintain pod directories
        self._ends_with_client = ends_with_client
        self._attend = attend
        self._on_run = on_run
        self._wrap = wrap
        self._hurry = False
        self._fault: PeerError | None = None  # error of the process that started us, for which it was disconnected
        self._closing = False
        self.ledger = Ledger(times=config.ops is not None)
        self.memory = MemoryBudget(config.limits.memory or default_limit())
        self._admission = Admission(config.limits, self.memory, self.ledger, time.time_ns)
        self._identities = Identities(config, self.ledger.counters, address_of)
        self._recordings = _recordings(config, self.ledger, self.memory)
        self.stop = asyncio.Event()
        self.ready = asyncio.Event()  # every listener accepts
        for route in config.routes:
            for endpoint in route.listen:
                registry.check_listen(endpoint)
            if make_backend is None:
                registry.check_upstream(route.upstream)

    async def run(self, listening: Callable[[str], None] = lambda _endpoint: None) -> None:
        """Serve until `stop` is set. `listening` is called with each bound endpoint; raise OSError if one cannot be
        bound.

        Raise PeerError if the process that started us was disconnected for an error.
        """
        if self._recordings is not None:
            self._recordings.open()
        self._services = Services(
            clock=time.time_ns,
            new_id=new_id,
            schedule=asyncio.get_running_loop().call_later,
            limits=self.config.limits,
            ledger=self.ledger,
            dialects=registry.imported,
            all_dialects=registry.dialects,
            memory=self.memory,
        )
        try:
            self.children = children = Children(self.config.limits.children)
            spawner = partial(route_spawner, children, inherit=self.config.inherit_env)
            self._upstreams = Upstreams(self._services, spawner, self.spawn, self._make_backend)
            async with children, asyncio.TaskGroup() as self._group:
                await self._serve_routes(listening)
        finally:
            if self._recordings is not None:
                await self._recordings.close()
        self._tell()
        if self._fault is not None:
            raise self._fault

    async def _serve_routes(self, listening: Callable[[str], None]) -> None:
        try:
            for route in self.config.routes:
                router = self._router(route)
                self._routers.append(router)
                for endpoint in route.listen:
                    listening(await self._listen(endpoint, route, router))
            self.ready.set()
            gc.freeze()  # docs/performance.md: a full collection need not scan what lives until the end
            gc.set_threshold(*COLLECT)
            gc.enable()  # the command line turned it off for the start
            await self.stop.wait()
            await self._drain()
        finally:
            await self._close()

    def on_signals(self) -> None:
        """Stop the app on SIGTERM or SIGINT; a second signal ends it at once."""
        loop = asyncio.get_running_loop()
        main = asyncio.current_task()

        def ring() -> None:
            if self.stop.is_set() and main is not None:
                main.cancel()
            self.stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ring)

    @property
    def replays(self) -> dict[str, Replay]:
        """The replays by route name, for routes whose backend is a recording."""
        return self._upstreams.replays

    @property
    def backends(self) -> dict[str, BackendStatus]:
        """The connections to the backend of each route by its name, for routes whose backend is not in this process."""
        return self._upstreams.statuses

    @property
    def links(self) -> list[Link]:
        """The clients that are connected."""
        return list(self._links.values())

    @property
    def routers(self) -> list[Router]:
        """The routers of the routes, in the order of the configuration."""
        return list(self._routers)

    @property
    def recordings(self) -> Recordings | None:
        """The recordings, if anything is recorded."""
        return self._recordings

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run `work` as a task of the app."""
        self._group.create_task(work, name=name)

    def join(self, dialect: Dialect, transport: Transport) -> None:
        """Connect a client in this process to the first route; call this once the app is `ready`."""
        translator = dialect.server(time.time_ns, new_id, "")
        port = ClientPort(dialect=dialect, router=self._routers[0], ingress=Ingress(endpoint="inside"))
        self._welcome(port, transport, translator)

    # -- routes and links ------------------------------------------------------------------------------

    def _router(self, route: Route) -> Router:
        def find_id(name: str) -> str:
            return router.find_id(name)

        def public_ids(state: SessionState) -> list[str]:
            dialects = [registry.dialect(endpoint.dialect) for endpoint in route.listen]
            return list(dict.fromkeys(name for one in dialects for name in one.public_ids(state.id, state.backend_ids)))

        recorder = self._recordings.of(route, find_id, public_ids) if self._recordings is not None else None
        router = Router(
            route,
            self._services,
            registry.upstream(route.upstream),
            self._upstreams.kind(route, recorder),
            recorder,
            RouteEvents(on_run=self._note_run, on_shutdown=self._on_shutdown),
        )
        return router

    async def _listen(self, endpoint: Endpoint, route: Route, router: Router) -> str:
        if (endpoint.dialect, endpoint.transport) == ("pod", "dir"):
            return await self._serve_directory(endpoint, route, router)
        ingress = Ingress(
            endpoint=str(endpoint), session=endpoint.option("session"), spawned=registry.spawned(endpoint)
        )
        listener = await self._open(endpoint, router, ingress)
        self._listeners.append(listener)
        if isinstance(listener, PodFolder):
            folder = listener

            def write_status(session: Session) -> None:
                if router.behind(ingress) is session:
                    folder.write_status(session.state)
                    self._attend(session)

            router.watch(write_status)
        return f"{endpoint.dialect}+{listener.address}"

    async def _serve_directory(self, endpoint: Endpoint, route: Route, router: Router) -> str:
        async def listen(path: str, ingress: Ingress) -> Listener:
            return await self._open(structs.replace(endpoint, transport="unix", address=path), router, ingress)

        def behind(ingress: Ingress) -> SessionState | None:
            session = router.behind(ingress)
            return session.state if session is not None else None

        directory = PodDirectory(Path(endpoint.address), route.name, listen=listen, behind=behind)
        await directory.open()
        self._listeners.append(directory)
        router.watch(lambda session: directory.update_session(session.state, lives=router.lives(session)))
        self._keepers.append(self._group.create_task(directory.run(), name=f"{route.name}:directory"))
        return f"{endpoint.dialect}+{directory.address}"

    async def _open(self, endpoint: Endpoint, router: Router, ingress: Ingress) -> Listener:
        path = endpoint.address if endpoint.transport == "dir" else ""
        us = Instance(id=new_id(), started_at=time.time_ns(), path=path, sessions=lambda: router.published)
        dialect = registry.dialect(endpoint.dialect)
        spoken = dialect.served(us) if dialect.served is not None else dialect
        publication = spoken.publication
        port = ClientPort(dialect=spoken, router=router, ingress=ingress)

        def accept(transport: Transport, principal: Principal | Refusal = LOCAL) -> None:
            translator = spoken.server(time.time_ns, new_id, endpoint.generation)
            named = structs.replace(port, principal=principal)
            self._welcome(named, self._wrap(transport), translator, attaches=publication is None)

        def publish(transport: Transport) -> None:
            if publication is not None:
                self._welcome(port, self._wrap(transport), publication(time.time_ns, new_id), publishes=True)

        identity = self._identities.listener(endpoint, router.route, accept)
        callbacks = ListenerCallbacks(
            accept=accept,
            accept_as=identity.accept_as,
            admit=identity.admit,
            authenticated=identity.authenticated,
            refusal=lambda peer: self._admission.refusal(address_of(peer)),
            publish=publish,
            instance=us,
            lost=lambda loss: self.ledger.record([loss], target=dialect.name),
            subscribed=router.subscribed,
        )
        return await registry.listen(endpoint, self.config.limits, callbacks)

    def _welcome(
        self,
        port: ClientPort,
        transport: Transport,
        translator: Translator[Command, Event],
        *,
        attaches: bool = True,
        publishes: bool = False,
    ) -> None:
        """Serve a client that has connected, or refuse it if there are too many."""
        dialect, router = port.dialect, port.router
        principal = port.principal if isinstance(port.principal, Principal) else LOCAL
        name, recorder = f"{dialect.name}-{next(self._numbers)}", router.recorder
        if self.ledger.times:
            transport, translator = observed(transport, translator, self.ledger.traffic_of(dialect.name, "client"))
        link = Link(
            Peer(
                id=name,
                dialect=dialect,
                ingress=port.ingress,
                principal=principal,
                roles=roles_of(principal, router.route) if not publishes else None,
                attaches=attaches,
                publishes=publishes,
                limited=not publishes,
            ),
            transport,
            translator,
            self._services,
            LinkEvents(sink=router.receive, drained=router.drained, refused=_refuse),
            recorder.tap(name, dialect.name) if recorder is not None else None,
        )
        # A listener bounds clients that only make calls, and there is one publication.
        address = address_of(transport.peer) if attaches and not publishes else ""
        refused = port.principal.text if isinstance(port.principal, Refusal) else ""
        full = refused or (self._admission.refusal(address, connected=True) if address else "")
        serving = (
            self._send_away(link, full, "denied" if refused else "busy") if full else self._serve(link, router, address)
        )
        try:
            self.spawn(serving, link.id)
        except RuntimeError:  # the app has ended; the end of the loop closes the connection
            serving.close()
            return
        if not full:
            self._links[link.id] = link
            self._admission.enter(address)
        if self._closing:  # the connection was made while the listener closed
            link.end(CloseReason.GOING_AWAY, "the gateway stops")

    async def _send_away(self, link: Link, text: str, cause: Cause) -> None:
        """Send the reason in the peer's dialect, if it has unsolicited errors, and disconnect the peer."""
        why = "too many clients, or too little memory" if cause == "busy" else "not authenticated"
        self.ledger.record([Loss(kind="link", why=why)], target=link.dialect.name)

        def refuse(link: Link) -> None:
            _refuse(link, text, cause)
            link.end(CloseReason.FULL, text)

        await link.run(refuse)

    async def _serve(self, link: Link, router: Router, address: str) -> None:
        link.log.info("client connected")
        try:
            await link.run(router.connected)
        finally:
            del self._links[link.id]
            self._admission.leave(address)
            router.gone(link)
            link.log.info("client disconnected")
            if link.ingress.spawned:
                self._fault = link.fault
                self._hurry = not self._links  # no client is left to wait for a turn
                self.stop.set()

    # -- the end ---------------------------------------------------------------------------------------

    def _note_run(self, session: Session, run: Run) -> None:
        last = run.events[-1]
        if isinstance(last, events.TurnEnded):
            self.ledger.counters[f"turns_{last.end}"] += 1
        self._on_run(session, run)

    def _on_shutdown(self, _link: Link) -> None:
        if self._ends_with_client:
            self._hurry = True
            self.stop.set()

    async def _drain(self) -> None:
        for listener in self._listeners:
            await listener.close()
        if self._hurry:
            return
        if any(router.busy for router in self._routers):
            log.info("waiting for open turns to finish", seconds=self.config.limits.drain_deadline)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.config.limits.drain_deadline):
                await asyncio.gather(*(router.busy.finish() for router in self._routers))

    async def _close(self) -> None:
        self._closing = True
        for keeper in self._keepers:
            keeper.cancel()
        for listener in self._listeners:
            await listener.close()
        for router in self._routers:
            router.stop()
        for link in list(self._links.values()):
            link.end(CloseReason.GOING_AWAY, "the gateway stops")

    def _tell(self) -> None:
        """Log the ledger and the counters, as the last lines of the log; only for debugging what nobody misses."""
        for entry in self.ledger.entries()[:LOSSES_LOGGED]:
            missed_by_nobody = getattr(getattr(events, entry.kind, None), "bookkeeping", False)
            (log.debug if missed_by_nobody else log.info)("not delivered", **structs.asdict(entry))
        for entry in self.ledger.partial()[:LOSSES_LOGGED]:
            log.info("delivered in part", **structs.asdict(entry))
        self._admission.flush()
        log.info("stopped", **self.ledger.counters)


def _refuse(link: Link, text: str, cause: Cause = "busy") -> None:
    """Tell a client, in its dialect, why it is disconnected; `busy` means that the gateway has no room for it."""
    link.send([Reply(request="", failure=Failure(cause=cause, text=text))])
