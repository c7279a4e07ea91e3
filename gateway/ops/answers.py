"""The answers of the ops port about sessions, links, routes, losses, the log and the configuration.

Each coroutine makes one answer of the gateway's tables; run it in the event loop of the gateway. Long tables are read
in slices.
"""

from __future__ import annotations

import re
from heapq import nlargest, nsmallest
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Any

from msgspec import Struct, structs

from dragoman.gateway.app import App
from dragoman.gateway.backends.failover import CircuitState, UpstreamPool
from dragoman.gateway.backends.status import BackendStatus
from dragoman.gateway.config.display import masked_table
from dragoman.gateway.endpoint import masked_text
from dragoman.gateway.link import Link
from dragoman.gateway.observability.ledger import Entry
from dragoman.gateway.ops.gateway_loop import take_slices
from dragoman.gateway.ops.queries import LossQuery, PageQuery, SessionQuery
from dragoman.gateway.public_reason import without_secrets
from dragoman.gateway.routing.router import Router
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical.values import Status
from dragoman.mappings.rfc3339 import NS, seconds

TITLE_MAX = 200  # characters of a session's title: often it is the first input
ROWS = 50  # rows of sessions that are made in one step of the gateway's loop: 3 ms


class SessionRow(Struct, frozen=True, kw_only=True):
    """A session in a list. `clients` is the number of clients that are attached, `memory` in bytes."""

    id: str
    route: str
    backend: str
    status: Status
    busy: bool
    title: str
    owner: str
    clients: int
    messages: int
    memory: int
    opened_at: str
    updated_at: str


class SessionPage(Struct, frozen=True, kw_only=True):
    """A page of sessions. `next_cursor` asks for the next page; it is null on the last one."""

    sessions: list[SessionRow]
    total: int
    next_cursor: str | None = None


class LinkRow(Struct, frozen=True, kw_only=True):
    """A client that is connected. `queued` and `memory` are in bytes; one that is `behind` reads slowly."""

    id: str
    dialect: str
    peer: str
    principal: str
    listener: str
    sessions: list[str]
    queued: int
    behind: bool
    memory: int


class LinkPage(Struct, frozen=True, kw_only=True):
    """A page of clients, in the order in which they connected."""

    links: list[LinkRow]
    total: int
    next_cursor: str | None = None


class SessionDetail(Struct, frozen=True, kw_only=True):
    """A session with its clients. `log_end` is the position of its last event."""

    session: SessionRow
    links: list[LinkRow]
    log_end: str


class UpstreamRow(Struct, frozen=True, kw_only=True):
    """An upstream of a route that has several, with its circuit. `fault` is its last failure, `failures` their number.

    `takes_new` says that new sessions try it first.
    """

    upstream: str
    circuit: CircuitState
    takes_new: bool
    connected: int
    failures: int
    fault: str


class RouteRow(Struct, frozen=True, kw_only=True):
    """A route with the connections to its backend. `fault` says why the last connection failed.

    `upstreams` are those of a route that has several, in their order.
    """

    name: str
    listen: list[str]
    upstream: str
    sessions: int
    busy: int
    connected: int
    missing: int
    attempts: int
    failures: int
    fault: str
    upstreams: list[UpstreamRow] = []


class RouteList(Struct, frozen=True, kw_only=True):
    """All routes, in the order of the configuration."""

    routes: list[RouteRow]


class LossPage(Struct, frozen=True, kw_only=True):
    """A page of the loss ledger: what was not delivered, and what was delivered without some fields."""

    losses: list[Entry]
    partial: list[Entry]
    total: int
    next_cursor: str | None = None


class ConfigInForce(Struct, frozen=True, kw_only=True):
    """The configuration with which the gateway runs, its secrets masked. A reload makes the next generation.

    `refused_at` and `refusal` tell of the last reload that was refused after it; "" if none was.
    """

    generation: int
    since: str
    refused_at: str
    refusal: str
    config: dict[str, Any]


CURSOR = re.compile(r"(?P<value>-?[0-9]{1,999}):(?P<session>.*)")
"""A cursor: the sort value and the id of the last session of a page. A backend may tell times of many digits."""


async def session_page(gateway: App, wanted: SessionQuery) -> SessionPage:
    """Return the sessions that match, in the order that is wanted, from the cursor on."""
    name, down = wanted.sort.removeprefix("-"), wanted.sort.startswith("-")
    start = _decode_cursor(wanted.cursor)
    total, found = 0, list[tuple[tuple[int, str], Router, Session]]()
    for router in _find_routers(gateway, wanted):
        async for some in take_slices(router.sessions):
            matching = [session for session in some if _matches(session, wanted)]
            total += len(matching)
            for session in matching:
                key = _sort_key(session, name)
                if not wanted.cursor or (key < start if down else key > start):
                    found.append((key, router, session))
            # sorting all would take longer
            found = (nlargest if down else nsmallest)(wanted.limit + 1, found, key=itemgetter(0))
    rows: list[SessionRow] = []
    async for page in take_slices(found[: wanted.limit], ROWS):
        rows += [_session_row(router, session) for _key, router, session in page]
    more = len(found) > wanted.limit
    return SessionPage(
        sessions=rows, total=total, next_cursor=_encode_cursor(found[wanted.limit - 1][0]) if more else None
    )


def _find_routers(gateway: App, wanted: SessionQuery) -> list[Router]:
    """Return the routers of the route and the backend's dialect that are wanted."""
    return [
        router
        for router in gateway.routers
        if wanted.route in ("", router.route.name) and wanted.dialect in ("", router.route.upstream.dialect)
    ]


def _matches(session: Session, wanted: SessionQuery) -> bool:
    return wanted.state in ("", session.state.status) and wanted.owner in ("", session.state.owner)


def _sort_key(session: Session, name: str) -> tuple[int, str]:
    """Return the value by which a session is sorted, and its id, which makes the order definite."""
    match name:
        case "opened_at":
            value = session.state.opened_at
        case "updated_at":
            value = session.state.updated_at or session.state.opened_at  # the time that the row of the session shows
        case "memory":
            value = session.memory.counted
        case "clients":
            value = _count_clients(session)
        case _:
            value = 0
    return value, session.state.id


def _encode_cursor(key: tuple[int, str]) -> str:
    value, session = key
    return f"{value}:{session}"


def _decode_cursor(cursor: str) -> tuple[int, str]:
    """Return the key of the last row of the page before, `(0, "")` for text that is no cursor."""
    found = CURSOR.match(cursor)
    return (int(found["value"]), found["session"]) if found is not None else (0, "")


def _number(text: str) -> int:
    """Return the number at the end of a cursor or of a client's id; 0 if there is none."""
    number = text.rpartition("-")[2]
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 20 else 0


def _count_clients(session: Session) -> int:
    return sum(not link.publishes for link in session.presence.links)


def find_session(gateway: App, id: str) -> tuple[Router, Session] | None:
    for router in gateway.routers:
        for session in router.sessions:
            if session.state.id == id:
                return router, session
    return None


async def session_detail(gateway: App, name: str) -> SessionDetail | None:
    """Return the session with this id and its clients; None if there is no such session."""
    found = find_session(gateway, name)
    if found is None:
        return None
    router, session = found
    attached, links = set(session.delivery.attachments), list[LinkRow]()
    async for some in take_slices(gateway.links):
        links += [_link_row(link) for link in some if link.id in attached]
    state = session.state
    return SessionDetail(session=_session_row(router, session), links=links, log_end=f"{state.epoch}:{state.seq}")


def _session_row(router: Router, session: Session) -> SessionRow:
    state, row = session.state, session.summary()
    return SessionRow(
        id=state.id,
        route=router.route.name,
        backend=router.route.upstream.dialect,
        status=state.status,
        busy=session.is_busy,
        title=without_secrets(row.title, TITLE_MAX),
        owner=state.owner,
        clients=_count_clients(session),
        messages=row.messages,
        memory=session.memory.counted,
        opened_at=_time(state.opened_at),
        updated_at=_time(row.updated_at),
    )


async def link_page(gateway: App, wanted: PageQuery) -> LinkPage:
    """Return the clients that connected after the one that the cursor names, which may have left."""
    links, limit, last = gateway.links, wanted.limit, _number(wanted.cursor)
    found = [link for link in links if _number(link.id) > last]
    return LinkPage(
        links=[_link_row(link) for link in found[:limit]],
        total=len(links),
        next_cursor=found[limit - 1].id if len(found) > limit else None,
    )


def _link_row(link: Link) -> LinkRow:
    return LinkRow(
        id=link.id,
        dialect=link.dialect.name,
        peer=link.peer,
        principal=link.principal,
        listener=masked_text(link.ingress.endpoint),
        sessions=list(islice(link.sessions, 100)),
        queued=link.outbox.size,
        behind=bool(link.behind),
        memory=link.meter.counted,
    )


async def route_list(gateway: App) -> RouteList:
    return RouteList(routes=[_route_row(gateway, router) for router in gateway.routers])


def _route_row(gateway: App, router: Router) -> RouteRow:
    route = router.route
    status = gateway.upstreams.statuses.get(route.name, BackendStatus())  # all zero if it is not dialled
    return RouteRow(
        name=route.name,
        listen=[endpoint.masked for endpoint in route.listen],
        upstream=route.upstream.masked,
        sessions=len(router.sessions),
        busy=sum(session.is_busy for session in router.sessions),
        connected=status.connected,
        missing=status.wanted - status.connected,
        attempts=status.attempts,
        failures=status.lost,
        fault=status.fault,
        upstreams=_upstream_rows(gateway.upstreams.pools.get(route.name)),
    )


def _upstream_rows(pool: UpstreamPool | None) -> list[UpstreamRow]:
    if pool is None:
        return []
    first = pool.candidates()[0]
    return [
        UpstreamRow(
            upstream=one.endpoint.masked,
            circuit=one.breaker.state,
            takes_new=one is first,
            connected=one.connected,
            failures=one.failures,
            fault=one.fault,
        )
        for one in pool.upstreams
    ]


async def loss_page(gateway: App, wanted: LossQuery) -> LossPage:
    """Return rows of the ledger that match. The cursor is the number of rows of each list on the pages before."""
    start = _number(wanted.cursor)
    end = start + wanted.limit
    losses = await _find_losses(gateway.ledger.entries(), wanted)
    partial = await _find_losses(gateway.ledger.partial(), wanted)
    return LossPage(
        losses=[structs.replace(entry) for entry in losses[start:end]],
        partial=partial[start:end],
        total=len(losses) + len(partial),
        next_cursor=str(end) if max(len(losses), len(partial)) > end else None,
    )


async def _find_losses(entries: list[Entry], wanted: LossQuery) -> list[Entry]:
    """Return the rows that match, sorted; equal ones stay in their order, the largest first."""
    found: list[Entry] = []
    filters = {name: text for name in ("session", "source", "target", "kind") if (text := getattr(wanted, name))}
    async for some in take_slices(entries):
        found += [entry for entry in some if all(getattr(entry, name) == text for name, text in filters.items())]
    match wanted.sort:
        case "-count":
            return found
        case "count":
            return found[::-1]
        case name:
            return sorted(found, key=attrgetter(name))


async def config_in_force(gateway: App) -> ConfigInForce:
    """Return the configuration in force, and the one that was refused since."""
    status = gateway.config_status
    return ConfigInForce(
        generation=status.generation,
        since=_time(status.since),
        refused_at=_time(status.refused_at),
        refusal=masked_text(status.cause),
        config=masked_table(gateway.config),
    )


def _time(nanoseconds: int) -> str:
    """Return a time as text, "" for 0 and for one outside of the years 1 to 9999, which a backend may tell."""
    whole, rest = divmod(nanoseconds, NS)
    text = seconds(whole) if nanoseconds else ""
    return f"{text}.{rest // 1_000_000:03}+00:00" if text else ""
