"""A parent pod whose child is a conversation at the real smooth server, and conversations that are resumed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from dragoman.gateway.app import App
from tests.awaited import until
from tests.pairs.gateway import SmoothClient
from tests.pairs.pod_client import PodClient
from tests.pairs.pod_parent import probe, read_output, said, send, spawn, stop
from tests.pairs.test_pod_listener import only, quiet, served
from tests.peers.real_smooth_client import connected
from tests.peers.smooth_server import RealServer

WS = "smooth+ws://127.0.0.1:0/ws"


@pytest.fixture
def socket(tmp_path: Path) -> str:
    return f"{tmp_path}/sock"


async def talked(server: RealServer, *texts: str) -> str:
    """Hold a conversation at the server with another client; return its conversation id."""
    async with served(WS, upstream=server.endpoint) as (app, (url,)), connected(url) as client:
        for text in texts:
            server.model.push_text(f"You said {text}.")
            await client.say(text)
        ids = only(app).state.backend_ids
        assert ids is not None
        return bytes(ids["smooth.conversationId"]).decode().strip('"')


def done(app: App) -> Callable[[], bool]:
    return lambda: bool(app.routers[0].sessions) and quiet(app)


async def test_a_parent_spawns_sends_reads_and_stops(server: RealServer, socket: str) -> None:
    server.model.push_text("Done.")
    server.model.push_text("Done again.")
    async with served(f"pod+unix:{socket}", upstream=server.endpoint) as (app, _):
        await probe(socket)
        await spawn(socket, "do it")
        await until(done(app))
        assert said(await read_output(socket)) == ["do it", "Done."]
        assert await send(socket, "do it again") == "accepted"
        await until(done(app))
        await stop(socket)
        assert said(await read_output(socket)) == ["do it", "Done.", "do it again", "Done again."]


async def test_the_latest_conversation_is_continued(server: RealServer, socket: str) -> None:
    await talked(server, "old")
    latest = await talked(server, "one", "two")
    async with served(f"pod+unix:{socket}?session=latest", upstream=server.endpoint) as (app, _):
        before = said(await read_output(socket))
        assert before == ["one", "You said one.", "two", "You said two."]
        server.model.push_text("You said three.")
        await spawn(socket, "three")
        await until(lambda: len(only(app).state.transcript) > len(before) and quiet(app))
        assert said(await read_output(socket)) == [*before, "three", "You said three."]
        ids = only(app).state.backend_ids
        assert ids is not None
        assert latest.encode() in bytes(ids["smooth.conversationId"])


async def test_without_any_conversation_the_latest_is_a_new_one(server: RealServer, socket: str) -> None:
    server.model.push_text("Hello.")
    async with served(f"pod+unix:{socket}?session=latest", upstream=server.endpoint) as (app, _):
        assert said(await read_output(socket)) == []
        assert await send(socket, "hi") == "accepted"
        await until(done(app))
        assert said(await read_output(socket)) == ["hi", "Hello."]


async def test_a_conversation_is_continued_by_its_id_and_a_run_comes_after_its_history(
    server: RealServer, socket: str
) -> None:
    conversation = await talked(server, "one")
    await talked(server, "newer")
    server.model.push_text("You said two.")
    async with served(f"pod+unix:{socket}?session={conversation}", upstream=server.endpoint) as (app, _):
        assert await send(socket, "two") == "accepted"
        await until(lambda: len(only(app).state.transcript) == 4 and quiet(app))
        assert only(app).state.id == conversation
        assert said(await read_output(socket)) == ["one", "You said one.", "two", "You said two."]


async def test_an_unknown_conversation_is_replaced_by_a_new_one_and_reported_to_the_client(
    server: RealServer, socket: str
) -> None:
    unknown = "0198c3a1-0000-4000-8000-00000000dead"
    async with (
        served(f"pod+unix:{socket}?session={unknown}", upstream=server.endpoint),
        PodClient.connected(socket) as tui,
    ):
        await tui.until(lambda: "alert" in tui.names())
        (alert,) = [data for name, data in tui.events if name == "alert"]
        assert unknown in alert["message"]


async def test_a_long_history_is_loaded_over_its_pages(server: RealServer, socket: str) -> None:
    texts = [f"{n}" for n in range(60)]
    conversation = await talked(server, *texts)
    async with served(f"pod+unix:{socket}?session={conversation}", upstream=server.endpoint):
        assert said(await read_output(socket)) == [t for text in texts for t in (text, f"You said {text}.")]


async def test_a_conversation_resumed_by_a_smooth_client_has_its_history_for_pod_clients(
    server: RealServer, socket: str
) -> None:
    conversation = await talked(server, "one")
    listen = (f"pod+unix:{socket}?session={conversation}", WS)
    async with served(*listen, upstream=server.endpoint) as (app, (_, url)), SmoothClient.connected(url) as client:
        create = {"action": "create_conversation_session", "agentId": str(uuid4()), "conversationId": conversation}
        resumed = await client.ask(create)
        assert resumed["data"]["conversationId"] == conversation
        await until(lambda: any(s.state.transcript for s in app.routers[0].sessions))
        assert said(await read_output(socket)) == ["one", "You said one."]
        assert len([s for s in app.routers[0].sessions if s.state.transcript]) == 1


async def test_the_latest_conversation_is_the_one_that_a_client_has_open_already(
    server: RealServer, socket: str
) -> None:
    async with (
        served(f"pod+unix:{socket}?session=latest", WS, upstream=server.endpoint) as (app, (_, url)),
        connected(url) as client,
    ):
        server.model.push_text("You said one.")
        await client.say("one")
        assert said(await read_output(socket)) == ["one", "You said one."]
        await until(lambda: len(app.routers[0].sessions) == 1)
