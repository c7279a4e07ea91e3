"""Create the backends of routes: dialled, played from a recording, or in this process."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from dragoman.adapters.base import Transport
from dragoman.adapters.hops import via
from dragoman.gateway import registry
from dragoman.gateway.backends.conversations import ConversationsKind, ReplayedKind
from dragoman.gateway.backends.failover import FailoverConnection, UpstreamPool
from dragoman.gateway.backends.kind import BackendKind, MakeBackend
from dragoman.gateway.backends.pods import PodsKind
from dragoman.gateway.backends.shared import SharedKind
from dragoman.gateway.backends.single import SingleKind
from dragoman.gateway.backends.spare_children import SpareChildren
from dragoman.gateway.backends.status import BackendStatus
from dragoman.gateway.backends.target import RouteDials, UpstreamTarget
from dragoman.gateway.backends.upstream import Upstream
from dragoman.gateway.config.model import Route
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.pods.live import Pods
from dragoman.gateway.routing.sessions import Sessions
from dragoman.gateway.session.ports import Backend, BackendEvents
from dragoman.gateway.transports.spec import FORWARDED, Connect, Spawner
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.dialect import Dialect

if TYPE_CHECKING:
    from dragoman.gateway.recording.recorder import Recorder
    from dragoman.gateway.replay.live import LiveBackend
    from dragoman.gateway.replay.plan import ReplayPlan
    from dragoman.gateway.replay.playing import Replay

MakeInProcess = Callable[[BackendEvents], Backend]
"""Makes the backend of a session in this process."""


class Upstreams:
    """Makes the backends of all routes. `spawner` starts the children of a route.

    `make_backend` replaces the upstreams of all routes by backends in this process.
    """

    def __init__(self, spawner: Callable[[Route], Spawner], make_backend: MakeInProcess | None = None) -> None:
        self._spawner = spawner
        self._make_backend = make_backend
        self._children = SpareChildren()
        self._dialers: dict[BackendKind, RouteDialer] = {}  # of all routers, in the order in which they were made
        self._replays: dict[BackendKind, Replay] = {}

    @property
    def statuses(self) -> dict[str, BackendStatus]:
        """Route name -> status of its newest backend, if that is dialled."""
        return {dialer.route.name: dialer.status for dialer in self._dialers.values()}

    @property
    def pools(self) -> dict[str, UpstreamPool]:
        """Route name -> pool, if the route has several upstreams."""
        pools = {dialer.route.name: dialer.pool for dialer in self._dialers.values()}
        return {route: pool for route, pool in pools.items() if pool is not None}

    @property
    def replays(self) -> list[Replay]:
        """The backends that are recordings."""
        return list(self._replays.values())

    async def read_plan(self, route: Route) -> ReplayPlan | None:
        """Return the plan of the recording that is the backend of a route, None if it has another backend.

        A thread reads it, because a recording of 100 MB takes several seconds. Raise ConfigError if it is invalid,
        OSError if it cannot be read.
        """
        if self._make_backend is not None or not registry.played(route.upstream):
            return None
        from dragoman.gateway.replay.playing import plan_of

        return await asyncio.to_thread(plan_of, route.upstream)

    def find_takers(self, route: Route) -> list[Endpoint]:
        """Return the upstreams of a route that may take a new session, as far as the state of its connections shows.

        A single upstream that is dialled again and again takes none, nor does one of several whose circuit is open.
        """
        pool = self.pools.get(route.name)
        if pool is not None:
            return [upstream.endpoint for upstream in pool.upstreams if upstream.breaker.takes]
        return [] if self.statuses[route.name].wanted else [route.upstream]

    def forget(self, kind: BackendKind) -> None:
        """Forget the backend of a router that was stopped."""
        self._dialers.pop(kind, None)
        self._replays.pop(kind, None)

    def make_kind(
        self, route: Route, recorder: Recorder | None, plan: ReplayPlan | None, sessions: Sessions
    ) -> BackendKind:
        """Return the kind of backend of a route; `plan` is the result of `read_plan` for the route."""
        upstream, make, services = registry.upstream(route.upstream), self._make_backend, sessions.services
        if make is not None:
            return kind_of(upstream, sessions, lambda session, _endpoint: make(session), in_process=True)
        # All sessions of the route share one spawner, because each has a copy of the environment.
        spawner = structs.replace(self._spawner(route), end_one=self._children.end_one)
        pool = None
        if route.failover:
            connectors = [(one, partial(_connect, one, sessions, spawner)) for one in route.upstreams]
            pool = UpstreamPool(route.name, connectors, lambda: sessions.services.limits, services.monotonic)
        dialer = RouteDialer(
            route=route,
            sessions=sessions,
            recorder=recorder,
            spawner=spawner,
            status=BackendStatus(),
            dials=RouteDials(lambda: sessions.services.limits, services.monotonic),
            pool=pool,
            children=self._children,
        )
        if plan is None:
            pods = registry.pods(route.upstream) if pool is None else None
            kind = kind_of(upstream, sessions, dialer.dial, pool=pool, pods=pods)
        else:
            replay = dialer.make_replay(upstream, plan)
            kind = kind_of(upstream, sessions, lambda session, _endpoint: replay.backend(session), in_process=True)
            self._replays[kind] = replay
        self._dialers[kind] = dialer
        return kind


class RouteDialer(Struct, frozen=True, kw_only=True):
    """Makes the connections of one route to its backend; `pool` is set if the route has several upstreams."""

    route: Route
    sessions: Sessions
    recorder: Recorder | None
    spawner: Spawner
    status: BackendStatus
    dials: RouteDials
    pool: UpstreamPool | None
    children: SpareChildren

    def dial(self, session: BackendEvents, endpoint: Endpoint) -> Upstream:
        """Make the connection of a session to its backend.

        With several upstreams the session is at any of them. A pod is one session, so it is at `endpoint` alone.
        """
        dialect, state, services = registry.dialect(endpoint.dialect), session.state, self.sessions.services
        own = state.id if dialect.session_ref is None else ""
        failover, pool = None, self.pool
        if pool is not None:
            failover = FailoverConnection(pool, state, pool.find_upstream(endpoint) if dialect.single_session else None)
            connect: Connect = failover.connect
        else:
            connect = registry.connector(endpoint, services.limits, self.spawner)
        if self.route.upstream_auth == "forward":
            connect = partial(self._connect_as_owner, connect, state)
        target = UpstreamTarget(
            endpoint=endpoint.masked if failover is None else failover.endpoint,
            dialect=dialect,
            connect=connect,
            dials=self.dials,
            tap=self.recorder.upstream(dialect, own) if self.recorder is not None else None,
            status=self.status,
            headers=lambda: {**(state.trace or {}), **via(state.hops)},
            failover=failover,
            children=self.children,
        )
        return Upstream(target, session, services)

    async def _connect_as_owner(self, connect: Connect, state: SessionState) -> Transport:
        """Connect with the token of the owner of a session; raise OSError if there is none."""
        token = self.sessions.services.tokens.get((self.route.name, state.owner), "")
        if not token:
            raise OSError(errno.EACCES, "the owner of the session has presented no token that could be passed on")
        FORWARDED.set(token)  # a context variable, set for the task of this connection alone
        return await connect()

    def make_replay(self, upstream: Dialect, plan: ReplayPlan) -> Replay:
        """Return the recording that is the backend of this route; the recorded backend behaved like `upstream`."""
        from dragoman.gateway.replay.playing import Replay

        return Replay(self.route.upstream, upstream, plan, self.sessions.services, self._go_live)

    def _go_live(self, session: BackendEvents, endpoint: Endpoint, sends_model_turns: bool) -> LiveBackend:
        """Make the live backend behind a session's replay, with its own connection."""
        from dragoman.gateway.replay.live import LiveBackend

        return LiveBackend(
            session,
            registry.dialect(endpoint.dialect),
            self.sessions.services,
            lambda live: self.dial(live, endpoint),
            name=endpoint.masked,
            sends_model_turns=sends_model_turns,
        )


async def _connect(endpoint: Endpoint, sessions: Sessions, spawner: Spawner) -> Transport:
    """Connect to an endpoint with the limits that are in force now."""
    return await registry.connector(endpoint, sessions.services.limits, spawner)()


def kind_of(
    upstream: Dialect,
    sessions: Sessions,
    make_backend: MakeBackend,
    *,
    pool: UpstreamPool | None = None,
    pods: Pods | None = None,
    in_process: bool = False,
) -> BackendKind:
    """Return the kind of a backend that behaves like `upstream`; `in_process` if it is not dialled.

    `pool` is set if the route has several upstreams, and `pods` if its upstream is a directory of them.
    """
    if pods is not None:
        return PodsKind(sessions, make_backend, pods)
    if upstream.session_ref is not None:
        return SharedKind(sessions, make_backend)
    if upstream.single_session:
        return SingleKind(sessions, make_backend, pool.choose if pool is not None else None)
    if in_process:
        return ReplayedKind(sessions, make_backend)
    return ConversationsKind(sessions, make_backend, pool.is_served if pool is not None else None)
