"""Sessions are forgotten `session_ttl` after the last client or turn, and no client makes the gateway walk all
of them.

What a client costs is counted: the sessions of which anything is read.
"""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from typing import Any

import pytest

from dragoman.gateway.link import Link
from dragoman.gateway.session.log import Log
from dragoman.gateway.session.session import NoBackend, Session
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.canonical.commands import OpenSession
from dragoman.mappings.dialect import Burst, Loss
from tests.gateway.in_memory import InMemoryGateway, in_memory_gateway
from tests.gateway.routing.counted_route import TTL, CountedRoute, OpenedConversation, touched
from tests.gateway.smooth_client_messages import CREATE, ask
from tests.gateway.smooth_server_messages import CREATED, acknowledged, answered, taken
from tests.idle import settle


async def opened(made: InMemoryGateway, name: str) -> dict[str, Any]:
    """Open a session of the smooth backend as a smooth client; return the data of the reply."""
    client = made.join(name)
    await client.says(CREATE)
    (asked,) = made.pod.news()
    await made.pod.says(acknowledged(asked["requestId"], **CREATED))
    (frame,) = client.news()
    return dict(frame["data"])


async def test_a_session_with_a_client_is_not_forgotten() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await opened(made, "a")
        made.time.passes(3 * TTL)
        assert len(made.router.sessions) == 1


async def test_the_time_of_a_session_restarts_with_each_client() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        data = await opened(made, "a")
        await made.clients["a"].transport.hangs_up()
        made.time.passes(TTL - 1)
        again = made.join("b")
        await again.says({**ask("get_session", "r"), "sessionId": data["sessionId"]})
        await again.transport.hangs_up()
        again.news()
        made.time.passes(TTL - 1)
        assert len(made.router.sessions) == 1
        made.time.passes(1)
        assert made.router.sessions == []


async def test_the_time_of_a_session_restarts_with_the_end_of_a_turn_that_no_client_saw() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        data = await opened(made, "a")
        await made.clients["a"].says({**ask("send_message", "t", message="hi"), "sessionId": data["sessionId"]})
        request = made.pod.news()[-1]["requestId"]
        await made.pod.says(taken(request))
        await made.clients["a"].transport.hangs_up()
        made.time.passes(TTL / 2)
        await made.pod.says(answered(request, "hello"))
        made.time.passes(TTL - 1)
        assert len(made.router.sessions) == 1
        made.time.passes(1)
        assert made.router.sessions == []


async def test_a_session_is_freed_by_its_last_timer_without_the_garbage_collector() -> None:
    async with in_memory_gateway(upstream="smooth") as made:
        await opened(made, "a")
        session = weakref.ref(made.router.sessions[0])
        await made.clients["a"].transport.hangs_up()
        gc.collect()
        gc.disable()
        try:
            made.time.passes(TTL)
            del made.upstream  # the last connection, which the test may look at
            await settle()
            assert session() is None
        finally:
            gc.enable()


# -- counted ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crowd() -> CountedRoute:
    """Return a route with 1,000 sessions without clients."""
    route = CountedRoute()
    route.open_and_leave(1_000)
    return route


def test_connecting_a_client_examines_no_session(crowd: CountedRoute, monkeypatch: pytest.MonkeyPatch) -> None:
    with touched(monkeypatch) as seen:
        crowd.connect("new")
    assert not seen


def test_a_disconnect_examines_only_the_sessions_of_its_client(
    crowd: CountedRoute, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = crowd.connect("new")
    crowd.open_session(link)
    with touched(monkeypatch) as seen:
        crowd.router.gone(link)
    assert len(seen) == 1


async def test_a_drained_outbox_examines_only_the_sessions_where_its_client_lags(
    crowd: CountedRoute, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = crowd.connect("new")
    session = crowd.open_session(link)
    with touched(monkeypatch) as seen:
        crowd.router.drained(link)
        await settle()
    assert not seen
    link.behind[session.state.id] = None
    with touched(monkeypatch) as seen:
        crowd.router.drained(link)
        await settle()
    assert len(seen) == 1


def test_opening_a_session_examines_only_the_new_session(crowd: CountedRoute, monkeypatch: pytest.MonkeyPatch) -> None:
    link = crowd.connect("new")
    with touched(monkeypatch) as seen:
        crowd.router.receive(link, [Burst(items=[OpenSession(request="r")])])
    assert len(seen) == 1


def test_forgetting_a_session_examines_no_other_session(crowd: CountedRoute, monkeypatch: pytest.MonkeyPatch) -> None:
    session = crowd.router.sessions[0]
    with touched(monkeypatch) as seen:
        session.presence.suspend("session_ttl")
    assert seen == {id(session)}


async def test_a_stopping_gateway_examines_only_the_busy_sessions(
    crowd: CountedRoute, monkeypatch: pytest.MonkeyPatch
) -> None:
    with touched(monkeypatch) as seen:
        await crowd.router.busy.finish()
    assert not seen


def objects(*kinds: type) -> list[int]:
    """Count the objects of each of these classes."""
    found = Counter(map(type, gc.get_objects()))
    return [found[kind] for kind in kinds]


def test_2000_forgotten_sessions_are_freed_without_the_garbage_collector() -> None:
    gc.collect()
    kinds = (Session, SessionState, Link, OpenedConversation, Log)
    before = objects(*kinds)
    route = CountedRoute(ttl=5.0)
    gc.disable()
    try:
        for _ in range(20):
            route.open_and_leave(100)
            route.time.passes(1.0)
        assert 0 < len(route.router.sessions) <= 600
        route.time.passes(5.0)
        after = objects(*kinds)
    finally:
        gc.enable()
    assert after == before
    everything = route.sessions
    assert not any(vars(everything.index)[name] for name in ("_sessions", "_names", "_given"))
    assert not any(vars(everything._unopened).values())
    assert not everything.busy
    assert not any(vars(everything.listener_sessions).values())
    assert not any(vars(everything.list)[name] for name in ("changed", "_places", "_orders"))
    assert not route.ledger._of_session


def test_the_losses_of_forgotten_sessions_stay_in_the_sums() -> None:
    route = CountedRoute(ttl=5.0)
    route.open_and_leave(3)
    for session in route.router.sessions:
        route.ledger.record([Loss(kind="Gap", why="a test")], session=session.state.id)
    route.time.passes(5.0)
    (entry,) = [entry for entry in route.ledger.entries() if entry.kind == "Gap"]
    assert (entry.session, entry.count) == ("", 3)


async def test_a_forgotten_session_still_belongs_to_its_owner() -> None:
    async with in_memory_gateway(share="owner") as made:
        sessions = made.router._all
        session = sessions.make("s1", lambda _session: NoBackend())
        session.state.owner = "ann"
        sessions.drop(session)
        assert sessions.is_foreign(made.join("eve", principal="eve").link, "s1")
        assert not sessions.is_foreign(made.join("ann", principal="ann").link, "s1")
        assert sessions.make("s1", lambda _session: NoBackend()).state.owner == "ann"
