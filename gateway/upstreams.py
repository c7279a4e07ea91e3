"""Make the backends of the routes: dialled, played from a recording, or in this process."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from dragoman.adapters.base import Transport
from dragoman.adapters.hops import via
from dragoman.gateway import registry
from dragoman.gateway.backends.conversations import ConversationsKind, ReplayedKind
from dragoman.gateway.backends.dials import RouteDials
from dragoman.gateway.backends.failover import FailoverConnection, UpstreamPool
from dragoman.gateway.backends.kind import BackendKind, MakeBackend
from dragoman.gateway.backends.pods import PodsKind
from dragoman.gateway.backends.shared import SharedKind
from dragoman.gateway.backends.single import SingleKind
from dragoman.gateway.backends.status import BackendStatus
from dragoman.gateway.backends.target import UpstreamTarget
from dragoman.gateway.backends.upstream import Upstream
from dragoman.gateway.config.model import Route
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.forwarded_tokens import FORWARDED
from dragoman.gateway.routing.sessions import Sessions
from dragoman.gateway.services import Services
from dragoman.gateway.session.ports import Backend, BackendEvents
from dragoman.gateway.transports.spec import Connect, Spawner
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.dialect import Dialect

if TYPE_CHECKING:
    from dragoman.gateway.recording.recorder import Recorder
    from dragoman.gateway.replay.live import LiveBackend
    from dragoman.gateway.replay.playing import Replay

MakeInProcess = Callable[[BackendEvents], Backend]
"""Makes the backend of a session in this process."""


class RouteSource(Struct, frozen=True, kw_only=True):
    """The sessions of a route and what their connections need; `pool` is set if the route has several upstreams."""

    route: Route
    sessions: Sessions
    recorder: Recorder | None
    spawner: Spawner
    dials: RouteDials
    pool: UpstreamPool | None = None


class Upstreams:
    """Makes the backends of all routes. Connections run as tasks of `spawn`; `spawner` starts the children of a route.

    `make_backend` replaces the upstreams of all routes by backends in this process.
    """

    def __init__(
        self,
        spawner: Callable[[Route], Spawner],
        spawn: Callable[[Coroutine[Any, Any, None], str], None],
        make_backend: MakeInProcess | None = None,
    ) -> None:
        self._spawner = spawner
        self._spawn = spawn
        self._make_backend = make_backend
        self.statuses: dict[str, BackendStatus] = {}  # route name -> status, if the backend is dialled
        self.pools: dict[str, UpstreamPool] = {}  # route name -> pool, if the route has several upstreams
        self.replays: dict[str, Replay] = {}  # route name -> replay, if the backend is a recording

    def find_takers(self, route: Route) -> list[Endpoint]:
        """Return the upstreams of a route that may take a new session, as far as its connections tell.

        A single upstream that is dialled in vain takes none, and neither does one of several with an open circuit.
        """
        pool = self.pools.get(route.name)
        if pool is not None:
            return [upstream.endpoint for upstream in pool.upstreams if upstream.breaker.takes]
        return [] if self.statuses[route.name].wanted else [route.upstream]

    def make_kind(self, route: Route, recorder: Recorder | None, sessions: Sessions) -> BackendKind:
        """Return the kind of backend that a route has, for its sessions."""
        upstream, make = registry.upstream(route.upstream), self._make_backend
        if make is not None:
            return kind_of(upstream, lambda session, _endpoint: make(session), in_process=True)(sessions)
        self.statuses[route.name] = BackendStatus()
        self.pools.pop(route.name, None)
        spawner = self._spawner(route)  # one for all sessions: it has a copy of the environment
        pool = self._make_pool(route, sessions.services, spawner) if route.failover else None
        dials = RouteDials(lambda: sessions.services.limits, sessions.services.monotonic)
        source = RouteSource(route=route, sessions=sessions, recorder=recorder, spawner=spawner, dials=dials, pool=pool)
        if registry.played(route.upstream):
            replay = self._make_replay(source, upstream)
            return kind_of(upstream, lambda session, _endpoint: replay.backend(session), in_process=True)(sessions)
        dial = partial(self._dial, source)
        if pool is not None and upstream.single_session:
            return SingleKind(sessions, dial, pool.choose)
        if pool is not None and upstream.session_ref is None:
            return ConversationsKind(sessions, dial, pool.is_served)
        pods = registry.pods(route.upstream)
        return PodsKind(sessions, dial, pods, self._spawn) if pods is not None else kind_of(upstream, dial)(sessions)

    def _make_pool(self, route: Route, services: Services, spawner: Spawner) -> UpstreamPool:
        limits = services.limits
        pool = self.pools[route.name] = UpstreamPool(
            route.name,
            [(endpoint, registry.connector(endpoint, limits, spawner)) for endpoint in route.upstreams],
            limits,
            services.monotonic,
        )
        return pool

    def _make_replay(self, source: RouteSource, upstream: Dialect) -> Replay:
        from dragoman.gateway.replay.playing import Replay

        loop, route = asyncio.get_running_loop(), source.route
        replay = self.replays[route.name] = Replay(
            route.upstream,
            upstream,
            later=loop.call_later,
            clock=loop.time,
            ledger=source.sessions.services.ledger,
            live=partial(self._live, source),
        )
        return replay

    def _live(
        self, source: RouteSource, session: BackendEvents, endpoint: Endpoint, tells_model_turns: bool
    ) -> LiveBackend:
        """Make the live backend behind a session's replay, with its own connection."""
        from dragoman.gateway.replay.conversation import PrivateConversation
        from dragoman.gateway.replay.live import LiveBackend

        dialect, services = registry.dialect(endpoint.dialect), source.sessions.services

        def connect(live: BackendEvents) -> Backend:
            if dialect.session_ref is None:
                return self._dial(source, live, endpoint)
            return PrivateConversation(
                live, dialect, services, lambda one: self._dial(source, one, endpoint, one.is_called)
            )

        return LiveBackend(
            session, dialect, services, connect, name=endpoint.masked, tells_model_turns=tells_model_turns
        )

    def _dial(
        self,
        source: RouteSource,
        session: BackendEvents,
        endpoint: Endpoint,
        ours: Callable[[str], bool] | None = None,
    ) -> Upstream:
        """Make the connection of a session to its backend; with `ours` it carries only sessions that this accepts.

        With several upstreams the session is at any of them. A pod is one session, so it is at `endpoint` alone.
        """
        dialect, state, services = registry.dialect(endpoint.dialect), session.connected(), source.sessions.services
        own = state.id if dialect.session_ref is None or ours is not None else ""
        failover, pool = None, source.pool
        if pool is not None:
            failover = FailoverConnection(pool, state, pool.find_upstream(endpoint) if dialect.single_session else None)
            connect: Connect = failover.connect
        else:
            connect = registry.connector(endpoint, services.limits, source.spawner)
        if source.route.upstream_auth == "forward":
            connect = partial(_connect_as_owner, connect, source, state)
        target = UpstreamTarget(
            endpoint=endpoint.masked if failover is None else failover.endpoint,
            dialect=dialect,
            connect=connect if ours is None else partial(_filtered, connect, dialect, ours),
            dials=source.dials,
            tap=source.recorder.upstream(dialect, own) if source.recorder is not None else None,
            status=self.statuses[source.route.name],
            headers=lambda: {**(state.trace or {}), **via(state.hops)},
            failover=failover,
        )
        return Upstream(state.id, target, session, services, self._spawn)


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


async def _connect_as_owner(connect: Connect, source: RouteSource, state: SessionState) -> Transport:
    """Connect with the token of the owner of a session; raise OSError if there is none."""
    token = source.sessions.services.tokens.find_token(source.route.name, state.owner)
    if not token:
        raise OSError(errno.EACCES, "the owner of the session has presented no token that could be passed on")
    FORWARDED.set(token)  # a context variable, set for the task of this connection alone
    return await connect()


async def _filtered(connect: Connect, dialect: Dialect, ours: Callable[[str], bool]) -> Transport:
    from dragoman.gateway.replay.conversation import SessionFilter

    return SessionFilter(await connect(), dialect, ours)
