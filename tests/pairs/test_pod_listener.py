"""A pod listener has one session: for every client, across disconnects and probes, as a parent pod uses it.

The backends are the demo backend served as smooth server, which opens a conversation for each connection.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config, Limits, Route
from dragoman.gateway.demo.backend import demo_backend
from dragoman.gateway.endpoint import parse
from dragoman.gateway.session.session import Session
from tests.awaited import until
from tests.pairs.gateway import DEADLINE, LIMITS, SmoothClient, serving
from tests.pairs.pod_client import PodClient
from tests.pairs.pod_parent import probe, read_output, said, send, spawn, stop


@asynccontextmanager
async def served(
    *listen: str, upstream: str = "", limits: Limits = LIMITS, **options: Any
) -> AsyncIterator[tuple[App, list[str]]]:
    """Run a gateway with these listeners before `upstream`, or before a smooth demo backend; yield it and their
    addresses.
    """
    backend = demo_backend(parse("smooth+ws://127.0.0.1:0/ws"), limits=LIMITS)
    async with asyncio.timeout(DEADLINE), serving(backend) as (demo,):
        route = Route(name="test", listen=tuple(map(parse, listen)), upstream=parse(upstream or demo), **options)
        app = App(Config(routes=(route,), limits=limits))
        async with serving(app) as endpoints:
            yield app, [endpoint.partition("+")[2].removeprefix("unix:") for endpoint in endpoints]


def only(app: App) -> Session:
    """Return the only session of the gateway."""
    (session,) = app.routers[0].sessions
    return session


def quiet(app: App) -> bool:
    """Return True if there is a message and no open turn."""
    session = only(app)
    return bool(session.state.transcript) and not session.is_busy


@pytest.fixture
def socket(tmp_path: Path) -> str:
    (tmp_path / "atlas").mkdir()
    return f"{tmp_path}/atlas/sock"


async def test_all_clients_of_a_pod_listener_share_one_session(socket: str) -> None:
    async with (
        served(f"pod+unix:{socket}") as (app, _),
        PodClient.connected(socket) as one,
        PodClient.connected(socket) as two,
    ):
        await one.say("retry")
        await two.until(lambda: two.idle() > 0)
        assert two.joined("text_delta") == "The second try worked."
        assert len(app.routers[0].sessions) == 1


async def test_the_session_is_the_same_after_probes_and_after_all_clients_left(socket: str) -> None:
    async with served(f"pod+unix:{socket}") as (app, _):
        await probe(socket)
        async with PodClient.connected(socket) as client:
            await client.turn("retry")
        session = only(app)
        await until(lambda: not session.delivery.attachments)
        await probe(socket)
        assert said(await read_output(socket)) == ["retry", "The second try worked."]
        assert app.routers[0].sessions == [session]


async def test_each_pod_listener_has_a_session_of_its_own(tmp_path: Path) -> None:
    async with served(f"pod+unix:{tmp_path}/a.sock", f"pod+unix:{tmp_path}/b.sock") as (_, (a, b)):
        async with PodClient.connected(a) as watcher:
            assert await send(a, "retry") == "accepted"
            await watcher.until(lambda: watcher.idle() > 0)
        assert said(await read_output(a)) == ["retry", "The second try worked."]
        assert said(await read_output(b)) == []


async def test_a_smooth_client_attaches_to_the_session_of_a_pod_listener_by_its_id(socket: str) -> None:
    async with (
        served(f"pod+unix:{socket}", "smooth+ws://127.0.0.1:0/ws") as (app, (_, url)),
        PodClient.connected(socket) as pod,
    ):
        await pod.turn("retry")
        session = only(app)
        assert session.state.backend_ids is not None
        async with SmoothClient.connected(url) as smooth:
            for name in ("smooth.sessionId", "smooth.conversationId"):
                smooth.session = json.loads(bytes(session.state.backend_ids[name]))
                await smooth.turn("retry")
        assert pod.joined("text_delta") == "The second try worked." * 3


# -- a parent pod (docs/dialects/pod.md, section 11) -------------------------------------------------


async def test_a_parent_sends_and_reads_output_and_is_refused_while_a_turn_runs(socket: str) -> None:
    async with served(f"pod+unix:{socket}") as (app, _):
        assert await send(socket, "retry") == "accepted"
        await until(lambda: quiet(app))
        assert said(await read_output(socket)) == ["retry", "The second try worked."]
        assert await send(socket, "wait") == "accepted"
        assert await send(socket, "hello") == "rejected"


async def test_the_first_task_of_a_parent_that_reads_nothing_is_executed(socket: str) -> None:
    async with served(f"pod+unix:{socket}") as (app, _):
        await spawn(socket, "retry")
        await until(lambda: bool(app.routers[0].sessions) and quiet(app))
        assert said(await read_output(socket)) == ["retry", "The second try worked."]


async def test_a_parent_that_stops_its_child_ends_only_its_own_attachment(socket: str) -> None:
    async with served(f"pod+unix:{socket}") as (app, _), PodClient.connected(socket) as tui:
        await stop(socket)
        await until(lambda: len(app.links) == 1)
        await tui.turn("retry")
        assert "shutdown" not in tui.names()


async def test_by_default_a_turn_continues_when_its_last_client_leaves(socket: str) -> None:
    async with served(f"pod+unix:{socket}") as (app, _):
        assert await send(socket, "slow") == "accepted"
        session = only(app)
        await until(lambda: not session.delivery.attachments)
        assert (await read_output(socket))["status"] == "running"


async def test_a_pod_is_named_after_its_own_listener_though_another_dialect_listens_before_it(tmp_path: Path) -> None:
    (tmp_path / "atlas").mkdir()
    listen = (f"codewhale+unix:{tmp_path}/whale.sock", f"pod+unix:{tmp_path}/atlas/sock")
    async with served(*listen) as (_, (_, path)), PodClient.connected(path) as client:
        assert client.events[0][1]["greeting"]["pod_name"] == "atlas"
