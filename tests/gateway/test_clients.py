"""The clients of a gateway are counted for each router; test_app.py tests how they are refused."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from dragoman.gateway import clients
from dragoman.gateway.config.model import Config, Route
from dragoman.gateway.demo.backend import demo_backend
from dragoman.gateway.endpoint import parse
from dragoman.gateway.link import Link
from dragoman.gateway.overload.fair_queue import STEP
from dragoman.gateway.routing import router
from dragoman.gateway.session.presence import Presence
from tests.gateway.played_backend import PodClients, route_of, running
from tests.gateway.steps_of_queue import count_in_steps
from tests.pairs.codewhale_client import CodewhaleClient
from tests.pairs.gateway import DEADLINE, bridged, serving


async def test_the_links_of_a_router_are_those_that_connected_to_its_listeners(tmp_path: Path) -> None:
    routes = (route_of(tmp_path, "a", "s"), route_of(tmp_path, "b", "t"))
    peers = PodClients(tmp_path)
    async with running(Config(routes=routes)) as (app, *_):
        for name in ("s", "s", "t"):
            await peers.connect(name)
        links_of = app._clients.links_of
        assert [len(links_of(router)) for router in app.routers] == [2, 1]
        peers.close()
        await asyncio.gather(*map(app._clients.wait_until_gone, app.routers))
        assert app.links == []


async def test_clients_that_are_disconnected_together_are_ended_in_many_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number, peers = 7, PodClients(tmp_path)
    async with running(Config(routes=(route_of(tmp_path, "a", "s"),))) as (app, *_):
        queue = app._services.queue
        for _ in range(number):
            await peers.connect("s")
        ended = count_in_steps(monkeypatch, Link, "end")
        queue.budget.left, queue.departures.expected = STEP, STEP // 2
        await app._clients.end(app.links, "this route is not served any more")
        assert sum(ended) == number
        assert max(ended) <= 2
        assert app.links == []
    peers.close()


async def test_a_client_that_is_gone_leaves_many_sessions_in_many_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = 12
    for module in (clients, router):
        monkeypatch.setattr(module, "LEFT_AT_ONCE", 2)
    backend = demo_backend(parse("smooth+ws://127.0.0.1:0/ws"))
    async with (
        serving(backend) as (upstream,),
        bridged(upstream, listen=f"codewhale+unix:{tmp_path}/sock") as (app, _),
    ):
        async with CodewhaleClient.connected(f"{tmp_path}/sock") as client:
            for _ in range(number - 1):
                await client.call("thread/start")
            left = count_in_steps(monkeypatch, Presence, "detach")
            app._services.queue.departures.expected = STEP // 2
        await app._clients.wait_until_gone(app.routers[0])
        assert sum(left) == number
        assert max(left) <= 6, "two pieces of a step, and the rest at the end"
        assert [session.presence.has_no_clients for session in app.routers[0].sessions] == [True] * number


@pytest.mark.parametrize(
    ("upstream", "told"), [("pod+unix:/played", None), ("smooth+ws://h", True), ("codewhale+unix:/played", True)]
)
async def test_a_codewhale_client_is_told_if_the_backend_of_its_route_takes_images(
    tmp_path: Path, upstream: str, told: bool | None
) -> None:
    listen = (parse(f"codewhale+unix:{tmp_path}/s"),)
    async with running(Config(routes=(Route(name="a", listen=listen, upstream=parse(upstream)),))):
        reader, writer = await asyncio.open_unix_connection(tmp_path / "s")
        writer.write(b'{"jsonrpc":"2.0","id":1,"method":"capabilities"}\n')
        async with asyncio.timeout(DEADLINE):
            answer = json.loads(await reader.readline())
        writer.close()
    assert answer["result"].get("turn_image_inputs") is told
