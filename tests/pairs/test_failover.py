"""A route with several upstreams over real sockets: where its sessions go, and what operators are told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config, Limits, Route
from dragoman.gateway.endpoint import parse
from dragoman.gateway.ops import health
from tests.conformance.fake_pod import FakePod
from tests.conformance.fake_smooth import FakeSmooth
from tests.gateway.ops.running import LOCAL, OpsClient, operated
from tests.pairs.gateway import DEADLINE, SmoothClient
from tests.pairs.pod_client import PodClient

LIMITS = Limits(drain_deadline=0.5, snapshot_wait=10.0, max_fails=1, fail_timeout=1000.0, backoff_first=0.01)


@asynccontextmanager
async def route_to(*upstreams: str, listen: str = "smooth+ws://127.0.0.1:0/ws") -> AsyncIterator[OpsClient]:
    """Serve a route with these upstreams, and an ops port."""
    first, *others = map(parse, upstreams)
    route = Route(name="test", listen=(parse(listen),), upstream=first, failover=tuple(others))
    async with operated(app=App(Config(routes=(route,), limits=LIMITS, ops=LOCAL))) as port:
        yield port


def url(port: OpsClient) -> str:
    return port.listening[0].partition("+")[2]


async def circuits(port: OpsClient) -> list[tuple[str, bool]]:
    _, body = await port.ask("/routes")
    return [(row["circuit"], row["takes_new"]) for row in body["routes"][0]["upstreams"]]


@pytest.fixture(autouse=True)
def unremembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probe at each request."""
    monkeypatch.setattr(health, "PROBE_EVERY", 0.0)


async def test_a_new_session_goes_to_the_next_upstream_and_live_ones_stay() -> None:
    async with AsyncExitStack() as first_server, FakeSmooth.serving() as second:
        first = await first_server.enter_async_context(FakeSmooth.serving())
        async with route_to(first.url, second.url) as port, SmoothClient.connected(url(port)) as early:
            assert (first.connections, second.connections) == (1, 0)
            await first_server.aclose()
            async with SmoothClient.connected(url(port)) as late:
                assert second.connections == 1
                await late.turn("hello")
            request = await early.say("hello")
            await early.until(lambda: any(f["type"] == "error" and f.get("requestId") == request for f in early.frames))
            assert second.connections == 1


async def test_a_pod_client_of_a_dead_upstream_gets_an_error_and_reconnects_to_the_next_one(
    tmp_path: Path,
) -> None:
    socket = f"{tmp_path}/sock"
    async with AsyncExitStack() as first_server, FakeSmooth.serving() as second:
        first = await first_server.enter_async_context(FakeSmooth.serving())
        async with route_to(first.url, second.url, listen=f"pod+unix:{socket}"):
            async with PodClient.connected(socket) as early:
                await early.turn("hello")
                await first_server.aclose()
                await early.say("again")
                await early.until(lambda: "stays at its upstream" in str(early.events))
                assert "connect again or open another session, to use the next upstream" in str(early.events)
            async with PodClient.connected(socket) as late:
                await late.turn("hello")
        assert second.connections == 1


async def test_a_turn_goes_on_at_a_second_upstream_while_new_sessions_return_to_the_first() -> None:
    async with (
        FakeSmooth.serving() as first,
        FakeSmooth.serving() as second,
        route_to(first.url, second.url) as port,
    ):
        pool = port.app.upstreams.pools["test"]
        pool.note_failure(pool.upstreams[0], "a test")
        async with SmoothClient.connected(url(port)) as early:
            await early.say("hold")
            await second.asked()
            pool.note_success(pool.upstreams[0])
            async with SmoothClient.connected(url(port)):
                assert (first.connections, second.connections) == (1, 1)
            await second.say({"type": "stream_token", "requestId": "$turn", "token": "x"})
            await early.until(lambda: any(frame["type"] == "stream_token" for frame in early.frames))


async def test_an_open_circuit_is_reported_to_operators_and_the_route_stays_ready() -> None:
    async with AsyncExitStack() as first_server, FakeSmooth.serving() as second:
        first = await first_server.enter_async_context(FakeSmooth.serving())
        async with route_to(first.url, second.url) as port:
            assert await circuits(port) == [("closed", True), ("closed", False)]
            await first_server.aclose()
            async with SmoothClient.connected(url(port)):
                pass
            assert await circuits(port) == [("open", False), ("closed", True)]
            status, body = await port.ask("/readyz?verbose")
            (check,) = [check for check in body["checks"] if check["name"] == "route test"]
            assert (status, check["ready"]) == (200, True)
            assert check["cause"].startswith(f"{first.url}: its circuit is open: ")


async def test_a_route_without_a_live_upstream_is_not_ready(tmp_path: Path) -> None:
    async with route_to(f"pod+unix:{tmp_path}/a", f"pod+unix:{tmp_path}/b") as port:
        status, body = await port.ask("/readyz")
        (check,) = [check for check in body["checks"] if not check["ready"]]
        assert status == 503
        assert all(f"pod+unix:{tmp_path}/{name} cannot be reached" in check["cause"] for name in "ab")


async def test_new_clients_get_the_session_of_the_first_live_pod(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    async with (
        route_to(f"pod+unix:{first}", f"pod+unix:{second}") as port,
        FakePod.serving(second) as pod,
        SmoothClient.connected(url(port)) as early,
    ):
        async with asyncio.timeout(DEADLINE):
            await pod.connected(1)
        async with FakePod.serving(first) as preferred:
            port.app.upstreams.pools["test"].note_success(port.app.upstreams.pools["test"].upstreams[0])
            async with SmoothClient.connected(url(port)) as late:
                async with asyncio.timeout(DEADLINE):
                    await preferred.connected(1)
                assert late.session != early.session
            await early.turn("hello")


async def test_clients_of_a_pod_listener_share_the_session_of_a_pod_while_it_is_healthy(tmp_path: Path) -> None:
    first, second, socket = tmp_path / "a", tmp_path / "b", f"{tmp_path}/sock"
    async with (
        FakePod.serving(first) as pod,
        FakePod.serving(second) as other,
        route_to(f"pod+unix:{first}", f"pod+unix:{second}", listen=f"pod+unix:{socket}") as port,
        PodClient.connected(socket),
    ):
        async with PodClient.connected(socket):
            assert (pod.connections, other.connections) == (1, 0)
        pool = port.app.upstreams.pools["test"]
        pool.note_failure(pool.upstreams[0], "a test")
        async with PodClient.connected(socket):
            assert (pod.connections, other.connections) == (1, 1)
