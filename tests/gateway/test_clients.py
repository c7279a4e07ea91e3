"""The clients of a gateway are counted for each router; test_app.py tests how they are refused."""

from __future__ import annotations

import asyncio
from pathlib import Path

from dragoman.gateway.config.model import Config
from tests.gateway.test_routes import Clients, route_of, running


async def test_the_links_of_a_router_are_those_that_connected_to_its_listeners(tmp_path: Path) -> None:
    routes = (route_of(tmp_path, "a", "s"), route_of(tmp_path, "b", "t"))
    peers = Clients(tmp_path)
    async with running(Config(routes=routes)) as (app, *_):
        for name in ("s", "s", "t"):
            await peers.connect(name)
        clients = app._clients
        assert [len(clients.links_of(router)) for router in app.routers] == [2, 1]
        peers.close()
        await asyncio.gather(*map(clients.wait_until_gone, app.routers))
        assert app.links == []
