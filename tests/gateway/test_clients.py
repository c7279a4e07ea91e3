"""The clients of a gateway are counted for each router; test_app.py tests how they are refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import structlog
from msgspec import Struct
from structlog.testing import capture_logs

from dragoman.gateway.clients import LINE_BURST, LINE_RATE, ConnectionLines
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


class Logged(Struct):
    log: Any


def test_a_flood_of_clients_is_cut_in_the_log_and_the_next_line_tells_how_many_lines_are_missing() -> None:
    now = 0
    lines = ConnectionLines(lambda: now)
    with capture_logs() as written:
        link = Logged(log=structlog.get_logger())
        for _ in range(LINE_BURST + 50):
            lines.write(link, "client connected")
        assert len(written) == LINE_BURST
        now += int(1e9 / LINE_RATE)
        lines.write(link, "client disconnected")
        lines.write(link, "client disconnected")
    assert written[LINE_BURST:] == [{"event": "client disconnected", "log_level": "info", "omitted": 50}]
