"""Open listeners: which of them may pass their clients to another router, and how they share the event loop."""

from __future__ import annotations

from pathlib import Path
from uuid import RFC_4122, UUID

import aiohttp
import pytest

from dragoman.adapters.websocket.client_reader import CONTROL_UNITS
from dragoman.gateway import listeners
from dragoman.gateway.config.model import Config, Route
from dragoman.gateway.endpoint import parse
from dragoman.gateway.listeners import new_id
from dragoman.gateway.overload.fair_queue import SlicedWork
from tests.gateway.played_backend import running


@pytest.mark.parametrize(
    ("endpoint", "can_move"),
    [
        ("smooth+ws://127.0.0.1:0/ws", True),
        ("pod+unix:TMP/s", True),
        ("codewhale+unix:TMP/s", True),
        ("pod+dir:TMP", False),
        ("pod+name:atlas", False),
        ("pando+tcp://127.0.0.1:0?rpc=0", False),
    ],
)
async def test_a_listener_that_shows_sessions_stays_with_its_router(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, endpoint: str, can_move: bool
) -> None:
    folder = tmp_path_factory.mktemp("s")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    listen = (parse(endpoint.replace("TMP", str(folder))),)
    async with running(Config(routes=(Route(name="a", listen=listen, upstream=parse("pod+unix:/played")),))) as (
        app,
        *_,
    ):
        ((listener,),) = (one.listeners for one in app._routes.running)
        assert listener.can_move == can_move


async def test_a_listener_is_announced_with_the_generation_of_its_endpoint(tmp_path: Path) -> None:
    listen = (parse(f"codewhale@0.8.59+unix:{tmp_path}/s"),)
    async with running(Config(routes=(Route(name="a", listen=listen, upstream=parse("pod+unix:/played")),))) as (
        *_,
        told,
    ):
        assert told == [str(listen[0])]


def test_new_ids_are_random_uuids_and_differ() -> None:
    made = [new_id() for _ in range(100)]
    assert len(set(made)) == 100
    for own in made:
        assert (str(UUID(own)), UUID(own).version, UUID(own).variant) == (own, 4, RFC_4122)
    assert {own[19] for own in made} == {*"89ab"}


async def test_the_pings_of_a_websocket_client_take_turns_with_the_work_of_all_links(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []

    class CountedWork(SlicedWork):
        def count(self, units: int) -> None:
            counted.append(units)
            super().count(units)

    monkeypatch.setattr(listeners, "SlicedWork", CountedWork)
    listen = (parse("smooth+ws://127.0.0.1:0/ws"),)
    async with running(Config(routes=(Route(name="a", listen=listen, upstream=parse("pod+unix:/played")),))) as (
        app,
        *_,
    ):
        ((listener,),) = (one.listeners for one in app._routes.running)
        url = listener.address.partition("+")[2]
        async with aiohttp.ClientSession() as http, http.ws_connect(url, autoping=False) as client:
            for _ in range(600):
                await client.ping()
            for _ in range(600):
                assert (await client.receive()).type is aiohttp.WSMsgType.PONG
    assert sum(counted) >= 600 * CONTROL_UNITS
