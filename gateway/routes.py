"""The routes that are served, each with its router and its open listeners, and their change at a reload.

A change has two phases. First everything that can fail is done: new routers are made and new listeners opened. If
something fails, it is undone, and the former routes stay in force. Then the new routes replace them:

    unchanged listener                  keeps its socket and its clients
    listener whose file is gone         is opened again, also without a change; its clients stay
    route with the same backend         keeps its router: new sessions get the new options
    route with another backend          gets a new router; clients and sessions of the old one stay until they leave
    other recordings                    each recorded route gets a new router, too
    removed route                       stops accepting, lets open turns finish or fails them, disconnects its clients
    listener of a pando                 closed, or with another router: like a removed route (clients share sockets)
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

import structlog
from msgspec import Struct

from dragoman.gateway import registry
from dragoman.gateway.clients import Clients, ListenerTarget
from dragoman.gateway.config.model import Route
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.identity.listeners import Identities
from dragoman.gateway.link import Link
from dragoman.gateway.listeners import Listeners, OpenListener
from dragoman.gateway.public_reason import full_reason
from dragoman.gateway.routing.router import Router
from dragoman.gateway.services import Services

BACKEND = ("upstream", "failover", "upstream_auth", "env", "rlimits", "reap", "record")
"""The options of a route that its router keeps for its life. If one of them changes, the route gets a new router."""

NOT_SERVED = "this route is not served any more"
NOT_NAMED = "this route asks for a credential now: connect again with one"

log = structlog.get_logger("dragoman")


class RunningRoute(Struct, kw_only=True, eq=False):
    """A route, the router of its new clients, and its listeners."""

    route: Route
    router: Router
    listeners: list[OpenListener] = []


class Routes:
    """The routes of a gateway, and the authentication of their clients.

    `make_router` returns the router of a route. `listening` is called with the endpoint of each listener that was
    opened, and `stopped` with each router that a reload has stopped.
    """

    def __init__(
        self,
        clients: Clients,
        listeners: Listeners,
        make_router: Callable[[Route, Services], Awaitable[Router]],
        listening: Callable[[str], None],
        stopped: Callable[[Router], Awaitable[None]],
    ) -> None:
        self.running: list[RunningRoute] = []
        self.identities: Identities
        self._clients = clients
        self._listeners = listeners
        self._make_router = make_router
        self._listening = listening
        self._stopped = stopped
        self._retired: list[Router] = []  # routers without a route, which still have clients or open turns

    @property
    def routers(self) -> list[Router]:
        """The routers of all routes, and those that older clients still use."""
        return [*(running.router for running in self.running), *self._retired]

    @property
    def unreachable(self) -> list[str]:
        """The addresses of listeners to which no client can connect any more, and those that could not be reopened."""
        listeners = (listener for running in self.running for listener in running.listeners)
        missing = [endpoint.masked for running in self.running for endpoint in _missing(running)]
        return [listener.address for listener in listeners if not listener.is_reachable] + missing

    async def start(self, routes: Iterable[Route], identities: Identities) -> None:
        """Serve these routes; raise OSError if a listener cannot be opened."""
        self.identities = identities
        for route in routes:
            running = RunningRoute(route=route, router=await self._make_router(route, self._clients.services))
            self.running.append(running)
            for endpoint in route.listen:
                await self._open(running, endpoint, self.identities)
                self._listening(running.listeners[-1].address)

    async def change(
        self, routes: Sequence[Route], identities: Identities, services: Services, *, records_anew: bool = False
    ) -> None:
        """Serve other routes; if that fails, keep the former ones and raise OSError.

        With `records_anew` each recorded route gets a new router, which uses the new recordings.
        """
        known = {running.route.name: running for running in self.running if not (records_anew and running.route.record)}
        async with contextlib.AsyncExitStack() as undo:
            planned = [await self._plan(route, known.get(route.name), services, undo) for route in routes]
            kept = self._match_listeners(planned)
            closing = [(old, one) for old in self.running for one in old.listeners if one not in kept]
            unauthenticated = list(self._find_unauthenticated(routes))
            opened = await self._open_missing(planned, closing, identities, undo)
            undo.pop_all()
        for listener in opened:
            self._listening(listener.address)
        self._clients.deny(unauthenticated, NOT_NAMED)
        for listener, new in kept.items():
            listener.target.change(new.router, identities)
        self.identities = identities
        self._clients.change_services(services)
        self._take_over(planned)

    async def reopen_listeners(self) -> list[str]:
        """Open the listeners again whose file is gone, and those that are missing.

        Return an error text for each that cannot be opened.
        """
        causes = []
        for running in self.running:
            for lost in [one for one in running.listeners if not one.is_reachable]:
                running.listeners.remove(lost)
                await lost.close()
            for endpoint in _missing(running):
                try:
                    listener = await self._open(running, endpoint, self.identities)
                except OSError as error:
                    causes.append(f"{endpoint.masked}: {full_reason(error)}")
                else:
                    self._listening(listener.address)
        return causes

    async def stop_accepting(self) -> None:
        """Close all listeners concurrently: each takes some rounds of the event loop, which are long under load."""
        await asyncio.gather(*(listener.close() for running in self.running for listener in running.listeners))

    async def finish_turns(self) -> None:
        """Return once every session that is busy now has finished."""
        await asyncio.gather(*(router.busy.finish() for router in self.routers))

    async def stop(self) -> None:
        """Stop every session: the gateway ends."""
        for router in self.routers:
            await router.stop()

    # -- change ----------------------------------------------------------------------------------------

    def _find_unauthenticated(self, routes: Sequence[Route]) -> Iterator[Link]:
        """Yield the clients that connected before their route began to authenticate clients.

        The client on our own stdin is not among them.
        """
        named = {route.name for route in routes if route.authenticated}
        for old in self.running:
            if old.route.name in named and not old.route.authenticated:
                yield from (
                    link for link in self._clients.links_of(old.router) if not (link.publishes or link.ingress.spawned)
                )

    async def _plan(
        self, route: Route, old: RunningRoute | None, services: Services, undo: contextlib.AsyncExitStack
    ) -> RunningRoute:
        """Return a RunningRoute with the router that the route will have, without listeners."""
        if old is not None and all(getattr(old.route, key) == getattr(route, key) for key in BACKEND):
            return RunningRoute(route=route, router=old.router)
        router = await self._make_router(route, services)
        undo.push_async_callback(self._stopped, router)
        undo.push_async_callback(router.stop)  # first: callbacks are called in reverse
        return RunningRoute(route=route, router=router)

    def _match_listeners(self, planned: Sequence[RunningRoute]) -> dict[OpenListener, RunningRoute]:
        """Return the listeners that stay open, each with the route to which it will belong."""
        kept: dict[OpenListener, RunningRoute] = {}
        for own in (True, False):  # a route keeps its own listeners before another one gets them
            for new in planned:
                for endpoint in _missing(new):
                    found = next((one for one in self._listeners_for(new, endpoint, own) if one not in kept), None)
                    if found is not None:
                        kept[found] = new
                        new.listeners.append(found)
        return kept

    def _listeners_for(self, new: RunningRoute, endpoint: Endpoint, own: bool) -> Iterable[OpenListener]:
        """Return the open listeners of this endpoint that the route can use: its `own`, or those of other routes.

        A listener knows whether its clients are authenticated when it is opened.
        """
        for old in self.running:
            if (old.route.name == new.route.name) == own and old.route.authenticated == new.route.authenticated:
                yield from (
                    one
                    for one in old.listeners
                    if one.endpoint == endpoint and one.is_reachable and (old.router is new.router or one.can_move)
                )

    async def _open_missing(
        self,
        planned: Sequence[RunningRoute],
        closing: Sequence[tuple[RunningRoute, OpenListener]],
        identities: Identities,
        undo: contextlib.AsyncExitStack,
    ) -> list[OpenListener]:
        """Open the listeners that are missing, close those of `closing`, and return the new ones."""
        used = {running.router for running in planned}
        occupied = {place for _, one in closing for place in registry.places(one.endpoint)}
        missing = [(new, endpoint) for new in planned for endpoint in _missing(new)]
        blocked = [one for one in missing if not occupied.isdisjoint(registry.places(one[1]))]
        opened: list[OpenListener] = []

        async def open_all(wanted: Iterable[tuple[RunningRoute, Endpoint]]) -> None:
            for new, endpoint in wanted:
                opened.append(await self._open(new, endpoint, identities))
                undo.push_async_callback(opened[-1].close)

        await open_all(one for one in missing if one not in blocked)
        for old, listener in closing:
            undo.push_async_callback(self._reopen, old, listener)
            await self._close(old.router, listener, is_used=old.router in used)
        await open_all(blocked)
        return opened

    async def _close(self, router: Router, listener: OpenListener, *, is_used: bool) -> None:
        """Stop accepting. Clients that share the sockets of a listener are disconnected after their turns."""
        if not listener.shares_sockets:
            await listener.close()
            return
        await self._finish_turns(router, str(listener.endpoint), is_used=is_used)
        await listener.close()
        await self._clients.end(self._clients.links_of(router, str(listener.endpoint)), NOT_SERVED)

    async def _finish_turns(self, router: Router, endpoint: str = "", *, is_used: bool = False) -> None:
        """Return once no session of a router is busy, or the drain deadline has passed.

        If no route uses the router any more, the turns of clients that are about to be disconnected fail then.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._clients.services.limits.drain_deadline):
                await router.busy.finish()
        if not is_used:
            await router.end_turns(self._clients.links_of(router, endpoint), NOT_SERVED)

    async def _reopen(self, running: RunningRoute, closed: OpenListener) -> None:
        """Open again a listener that was closed for a change which has failed."""
        running.listeners.remove(closed)
        try:
            await self._open(running, closed.endpoint, self.identities)
        except OSError as error:
            log.error("listener failed", endpoint=closed.endpoint.masked, cause=full_reason(error))  # noqa: TRY400  # its traceback says no more

    def _take_over(self, planned: list[RunningRoute]) -> None:
        """Put the planned routes into force, and retire the routers that have no route any more."""
        used = {new.router for new in planned}
        names = {new.route.name for new in planned}
        for old in self.running:
            if old.router not in used:
                self._retired.append(old.router)
                retiring = self._retire(old.router, is_removed=old.route.name not in names)
                _ = self._clients.services.start_task(retiring, f"{old.route.name}:retired")
        self.running = planned
        for new in planned:
            new.router.change_route(new.route, self._clients.services)

    async def _retire(self, router: Router, *, is_removed: bool) -> None:
        """Stop a router once its clients have left; disconnect those of a removed route after their turns."""
        if is_removed:
            await self._finish_turns(router)
            await self._clients.end(self._clients.links_of(router), NOT_SERVED)
        await self._clients.wait_until_gone(router)
        await router.busy.finish()
        await router.stop()
        self._retired.remove(router)
        await self._stopped(router)

    async def _open(self, running: RunningRoute, endpoint: Endpoint, identities: Identities) -> OpenListener:
        listener = await self._listeners.open(endpoint, ListenerTarget(router=running.router, identities=identities))
        running.listeners.append(listener)
        return listener


def _missing(running: RunningRoute) -> list[Endpoint]:
    have = [listener.endpoint for listener in running.listeners]
    missing = []
    for endpoint in running.route.listen:
        if endpoint in have:
            have.remove(endpoint)
        else:
            missing.append(endpoint)
    return missing
