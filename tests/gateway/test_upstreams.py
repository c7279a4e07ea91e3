"""The upstream of a route decides which kind of backend the route gets."""

from __future__ import annotations

import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, NoReturn

import pytest
from msgspec import structs

from dragoman.adapters.stdio import Children
from dragoman.gateway import registry
from dragoman.gateway.backends.conversations import ConversationsKind, ReplayedKind
from dragoman.gateway.backends.kind import BackendKind
from dragoman.gateway.backends.pods import PodsKind
from dragoman.gateway.backends.shared import SharedKind
from dragoman.gateway.backends.single import SingleKind
from dragoman.gateway.backends.upstream import Upstream
from dragoman.gateway.config.model import Limits, Route
from dragoman.gateway.endpoint import Endpoint, parse
from dragoman.gateway.recording.reader import Reader, open_recording
from dragoman.gateway.replay import playing
from dragoman.gateway.routing.sessions import Sessions
from dragoman.gateway.session.ports import Backend, BackendEvents
from dragoman.gateway.session.session import Session
from dragoman.gateway.transports.spec import Spawner
from dragoman.gateway.upstreams import MakeInProcess, Upstreams
from tests.gateway.recording.lines import FROZEN
from tests.services import services, spawner_of


def unexpected(_work: Coroutine[Any, Any, None], name: str) -> NoReturn:
    raise AssertionError(f"{name} was started")


def kind_of_route(upstream: str, make_backend: MakeInProcess | None = None) -> BackendKind:
    provided = structs.replace(services(), start_task=unexpected)
    route = Route(name="test", listen=(), upstream=parse(upstream))
    sessions = Sessions(route, provided, registry.upstream(route.upstream), lambda _link: None, None)
    upstreams = Upstreams(lambda _route: spawner_of(Children(1)), make_backend)
    return upstreams.make_kind(route, None, None, sessions)


@pytest.mark.parametrize(
    ("upstream", "kind"),
    [
        ("pod+unix:/pods/atlas/sock", SingleKind),
        ("pod+dir:/pods", PodsKind),
        ("pando+tcp://127.0.0.1:48254", SharedKind),
        ("smooth+ws://127.0.0.1:1/ws", ConversationsKind),
        ("codewhale+unix:/codewhale", ConversationsKind),
    ],
)
async def test_a_dialled_upstream_has_its_kind_and_is_not_dialled_before_a_client_comes(
    upstream: str, kind: type[BackendKind]
) -> None:
    assert type(kind_of_route(upstream)) is kind


async def test_the_environment_of_children_is_read_once_for_all_sessions_of_a_route() -> None:
    route = Route(name="test", listen=(), upstream=parse("smooth+ws://127.0.0.1:1/ws"))
    sessions = Sessions(route, services(), registry.upstream(route.upstream), lambda _link: None, None)
    asked: list[Route] = []

    def spawner(route: Route) -> Spawner:
        asked.append(route)
        return spawner_of(Children(1))

    kind = Upstreams(spawner).make_kind(route, None, None, sessions)
    for name in ("a", "b", "c"):
        sessions.make_unlisted(name, kind._connect_upstream)
    assert asked == [route]


async def test_the_connection_of_a_new_session_has_the_limits_that_its_route_has_then() -> None:
    route = Route(name="test", listen=(), upstream=parse("smooth+ws://127.0.0.1:1/ws"))
    sessions = Sessions(route, services(), registry.upstream(route.upstream), lambda _link: None, None)
    kind = Upstreams(lambda _route: spawner_of(Children(1))).make_kind(route, None, None, sessions)
    changed = structs.replace(route, limits={"connect_deadline": 1.5})
    sessions.change_route(changed, services().for_route(changed))
    made: list[Backend] = []

    def connect(session: Session) -> Backend:
        made.append(kind._connect_upstream(session))
        return made[-1]

    sessions.make_unlisted("s", connect)
    (connection,) = made
    assert isinstance(connection, Upstream)
    assert connection._services.limits.connect_deadline == 1.5
    assert connection._target.dials._limits().connect_deadline == 1.5


async def test_one_of_several_upstreams_is_connected_with_the_limits_that_its_route_has_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = (parse(f"smooth+ws://127.0.0.1:{port}/ws") for port in (1, 2))
    route = Route(name="test", listen=(), upstream=first, failover=(second,))
    sessions = Sessions(route, services(), registry.upstream(first), lambda _link: None, None)
    upstreams = Upstreams(lambda _route: spawner_of(Children(1)))
    upstreams.make_kind(route, None, None, sessions)
    changed = structs.replace(route, limits={"max_message": 2048})
    sessions.change_route(changed, services().for_route(changed))

    def connector(_endpoint: Endpoint, limits: Limits, _spawner: Spawner) -> NoReturn:
        raise ConnectionRefusedError(limits.max_message)

    monkeypatch.setattr(registry, "connector", connector)
    with pytest.raises(ConnectionRefusedError, match="2048"):
        await upstreams.pools["test"].upstreams[1].connect()


async def test_a_backend_in_this_process_replaces_the_upstream() -> None:
    def make(_session: BackendEvents) -> Backend:
        raise AssertionError("no session was opened")

    assert type(kind_of_route("smooth+ws://127.0.0.1:1/ws", make)) is ReplayedKind


async def test_a_recording_is_read_in_a_thread_and_again_for_each_router(monkeypatch: pytest.MonkeyPatch) -> None:
    readers: list[threading.Thread] = []

    def read(path: Path) -> Reader:
        readers.append(threading.current_thread())
        return open_recording(path)

    monkeypatch.setattr(playing, "open_recording", read)
    route = Route(name="test", listen=(), upstream=parse(f"replay+file:{FROZEN}/v4.jsonl"))
    sessions = Sessions(route, services(), registry.upstream(route.upstream), lambda _link: None, None)
    upstreams = Upstreams(lambda _route: spawner_of(Children(1)))
    for _ in range(2):
        plan = await upstreams.read_plan(route)
        assert type(upstreams.make_kind(route, None, plan, sessions)) is ReplayedKind
    assert len(readers) == 2
    assert threading.current_thread() not in readers


async def test_an_upstream_takes_no_session_while_it_is_dialled_in_vain_or_its_circuit_is_open() -> None:
    first, second = (parse(f"smooth+ws://127.0.0.1:{port}/ws") for port in (1, 2))
    alone = Route(name="alone", listen=(), upstream=first)
    both = Route(name="both", listen=(), upstream=first, failover=(second,))
    upstreams = Upstreams(lambda _route: spawner_of(Children(1)))
    for route in (alone, both):
        sessions = Sessions(route, services(), registry.upstream(first), lambda _link: None, None)
        upstreams.make_kind(route, None, None, sessions)
    assert [upstreams.find_takers(route) for route in (alone, both)] == [[first], [first, second]]
    upstreams.statuses["alone"].wanted = 1
    pool = upstreams.pools["both"]
    for _ in range(pool.limits().max_fails):
        pool.note_failure(pool.upstreams[0], "refused")
    assert [upstreams.find_takers(route) for route in (alone, both)] == [[], [second]]
