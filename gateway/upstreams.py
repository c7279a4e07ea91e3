"""Make the backends of the routes: dialled, played from a recording, or in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from dragoman.adapters.base import Transport
from dragoman.gateway import registry
from dragoman.gateway.backends.conversations import ConversationsKind, ReplayedKind
from dragoman.gateway.backends.failover import FailoverConnection, UpstreamPool
from dragoman.gateway.backends.kind import BackendKind, MakeBackend
from dragoman.gateway.backends.pods import PodsKind
from dragoman.gateway.backends.shared import SharedKind
from dragoman.gateway.backends.single import SingleKind
from dragoman.gateway.backends.status import BackendStatus
from dragoman.gateway.backends.upstream import Upstream, UpstreamTarget
from dragoman.gateway.config.model import Route
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.routing.sessions import Sessions
from dragoman.gateway.services import Services
from dragoman.gateway.session.ports import Backend, BackendEvents
from dragoman.gateway.transports.spec import Connect, Spawner
from dragoman.mappings.dialect import Dialect

if TYPE_CHECKING:
    from dragoman.gateway.recording.recorder import Recorder
    from dragoman.gateway.replay.live import LiveBackend
    from dragoman.gateway.replay.playing import Replay

MakeInProcess = Callable[[BackendEvents], Backend]
"""Makes the backend of a session in this process."""


class Upstreams:
    """Makes the backends of all routes. Connections run as tasks of `spawn`; `spawner` starts the children of a route.

    `make_backend` replaces the upstreams of all routes by backends in this process.
    """

    def __init__(
        self,
        services: Services,
        spawner: Callable[[Route], Spawner],
        spawn: Callable[[Coroutine[Any, Any, None], str], None],
        make_backend: MakeInProcess | None = None,
    ) -> None:
        self._services = services
        self._spawner = spawner
        self._spawn = spawn
        self._make_backend = make_backend
        self.statuses: dict[str, BackendStatus] = {}  # by route name, for routes whose backend is dialled
        self.pools: dict[str, UpstreamPool] = {}  # by route name, for routes with several upstreams
        self.replays: dict[str, Replay] = {}  # by route name, for routes whose backend is a recording

    def change_services(self, services: Services) -> None:
        """Use other limits for the connections that are made from now on."""
        self._services = services

    def kind(self, route: Route, recorder: Recorder | None) -> Callable[[Sessions], BackendKind]:
        """Return the function that makes the kind of backend that a route has."""
        upstream, make = registry.upstream(route.upstream), self._make_backend
        if make is not None:
            return kind_of(upstream, lambda session, _endpoint: make(session), in_process=True)
        self.statuses[route.name] = BackendStatus()
        self.pools.pop(route.name, None)
        if not registry.played(route.upstream):
            dial = partial(self._dial, route, recorder)
            if route.failover:
                pool = self.pools[route.name] = self._make_pool(route)
                dial = partial(self._dial_pool, pool, route, recorder)
                if upstream.single_session:
                    return lambda sessions: SingleKind(sessions, dial, pool.choose)
            pods = registry.pods(route.upstream)
            if pods is not None:
                return lambda sessions: PodsKind(sessions, dial, pods, self._spawn)
            return kind_of(upstream, dial)
        from dragoman.gateway.replay.playing import Replay

        loop = asyncio.get_running_loop()
        replay = self.replays[route.name] = Replay(
            route.upstream,
            upstream,
            later=loop.call_later,
            clock=loop.time,
            ledger=self._services.ledger,
            live=partial(self._live, route, recorder),
        )
        return kind_of(upstream, lambda session, _endpoint: replay.backend(session), in_process=True)

    def _make_pool(self, route: Route) -> UpstreamPool:
        limits, spawner = self._services.limits, self._spawner(route)
        return UpstreamPool(
            route.name,
            [(endpoint, registry.connector(endpoint, limits, spawner)) for endpoint in route.upstreams],
            limits,
            self._services.clock,
        )

    def _dial_pool(
        self, pool: UpstreamPool, route: Route, recorder: Recorder | None, session: BackendEvents, endpoint: Endpoint
    ) -> Upstream:
        """Make the connection of a session to the upstreams of a pool; one session of a pod is at `endpoint` alone."""
        dialect, state = registry.dialect(endpoint.dialect), session.connected()
        only = pool.find_upstream(endpoint) if dialect.single_session else None
        failover = FailoverConnection(pool, state, only)
        target = UpstreamTarget(
            endpoint=failover.endpoint,
            dialect=dialect,
            connect=failover.connect,
            tap=recorder.upstream(dialect, state.id if dialect.session_ref is None else "") if recorder else None,
            status=self.statuses[route.name],
            trace=lambda: state.trace,
            failover=failover,
        )
        return Upstream(state.id, target, session, self._services, self._spawn)

    def _live(
        self,
        route: Route,
        recorder: Recorder | None,
        session: BackendEvents,
        endpoint: Endpoint,
        tells_model_turns: bool,
    ) -> LiveBackend:
        """Make the live backend behind a session's replay, with its own connection."""
        from dragoman.gateway.replay.conversation import PrivateConversation
        from dragoman.gateway.replay.live import LiveBackend

        dialect = registry.dialect(endpoint.dialect)

        def connect(live: BackendEvents) -> Backend:
            if dialect.session_ref is None:
                return self._dial(route, recorder, live, endpoint)
            return PrivateConversation(
                live, dialect, self._services, lambda one: self._dial(route, recorder, one, endpoint, one.is_called)
            )

        return LiveBackend(
            session, dialect, self._services, connect, name=endpoint.masked, tells_model_turns=tells_model_turns
        )

    def _dial(
        self,
        route: Route,
        recorder: Recorder | None,
        session: BackendEvents,
        endpoint: Endpoint,
        ours: Callable[[str], bool] | None = None,
    ) -> Upstream:
        """Make the connection to a backend; with `ours` it carries only sessions for which `ours` is true."""
        state, dialect = session.connected(), registry.dialect(endpoint.dialect)
        name = state.id
        own = name if dialect.session_ref is None or ours is not None else ""
        connect = registry.connector(endpoint, self._services.limits, self._spawner(route))
        target = UpstreamTarget(
            endpoint=endpoint.masked,
            dialect=dialect,
            connect=connect if ours is None else partial(_filtered, connect, dialect, ours),
            tap=recorder.upstream(dialect, own) if recorder is not None else None,
            status=self.statuses[route.name],
            trace=lambda: state.trace,
        )
        return Upstream(name, target, session, self._services, self._spawn)


def kind_of(
    upstream: Dialect, make_backend: MakeBackend, *, in_process: bool = False
) -> Callable[[Sessions], BackendKind]:
    """Return the function that makes the kind of a backend of this dialect; `in_process` if it is not dialled."""
    kind: type[BackendKind] = ReplayedKind if in_process else ConversationsKind
    if upstream.session_ref is not None:
        kind = SharedKind
    elif upstream.single_session:
        kind = SingleKind
    return lambda sessions: kind(sessions, make_backend)


async def _filtered(connect: Connect, dialect: Dialect, ours: Callable[[str], bool]) -> Transport:
    from dragoman.gateway.replay.conversation import SessionFilter

    return SessionFilter(await connect(), dialect, ours)
