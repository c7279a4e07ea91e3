"""Open listeners: which of them may pass their clients to another router."""

from __future__ import annotations

import pytest

from dragoman.gateway.config.model import Config, Route
from dragoman.gateway.endpoint import parse
from dragoman.gateway.listeners import new_id
from tests.gateway.test_routes import running


@pytest.mark.parametrize(
    ("endpoint", "can_move"),
    [
        ("smooth+ws://127.0.0.1:0/ws", True),
        ("pod+unix:TMP/s", True),
        ("codewhale+unix:TMP/s", True),
        ("pod+dir:TMP", False),
        ("pando+tcp://127.0.0.1:0?rpc=0", False),
    ],
)
async def test_a_listener_that_shows_sessions_stays_with_its_router(
    tmp_path_factory: pytest.TempPathFactory, endpoint: str, can_move: bool
) -> None:
    folder = tmp_path_factory.mktemp("s")
    listen = (parse(endpoint.replace("TMP", str(folder))),)
    async with running(Config(routes=(Route(name="a", listen=listen, upstream=parse("pod+unix:/played")),))) as (
        app,
        *_,
    ):
        ((listener,),) = (one.listeners for one in app._routes.running)
        assert listener.can_move == can_move


def test_new_uuids_differ() -> None:
    assert new_id() != new_id()
