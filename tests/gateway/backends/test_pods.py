"""A directory of pods behind the gateway: which pod each client gets, over real sockets."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest
from msgspec import structs

from dragoman.gateway.app import App
from dragoman.gateway.demo.backend import demo_backend
from dragoman.gateway.endpoint import parse
from dragoman.gateway.pods.live import Pods
from dragoman.gateway.routing.ids import session_id
from tests.awaited import until
from tests.pairs.codewhale_client import CodewhaleClient
from tests.pairs.gateway import DEADLINE, LIMITS, SmoothClient, serving
from tests.pairs.pod_client import PodClient
from tests.pairs.pod_parent import read_output, said
from tests.pairs.test_pod_listener import served

WS = "smooth+ws://127.0.0.1:0/ws"


@asynccontextmanager
async def pods(base: Path, *names: str) -> AsyncIterator[None]:
    """Run a demo pod in each of these folders."""
    async with asyncio.timeout(DEADLINE), AsyncExitStack() as stack:
        for name in names:
            (base / name).mkdir(parents=True, exist_ok=True)
            await stack.enter_async_context(serving(demo_backend(parse(f"pod+unix:{base}/{name}/sock"))))
        yield


@asynccontextmanager
async def opening(url: str, **fields: Any) -> AsyncIterator[dict[str, Any]]:
    """Yield the answer to a fresh smooth client that opens a session, and keep the client connected."""
    frame = {"action": "create_conversation_session", "requestId": "o", "agentId": str(uuid4()), **fields}
    async with aiohttp.ClientSession() as http, http.ws_connect(url) as socket:
        await socket.send_json(frame)
        yield await socket.receive_json()


async def opened(url: str, **fields: Any) -> dict[str, Any]:
    """Return the answer to a fresh smooth client that opens a session and leaves."""
    async with opening(url, **fields) as reply:
        return reply


def conversation(base: Path, name: str) -> str:
    """Return the id of this pod's session (docs/translation.md, rule 3.1)."""
    return session_id("test", f"pod+unix:{base}/{name}/sock")


def titles(app: App) -> list[str]:
    return sorted(session.state.title for session in app.routers[0].sessions)


async def test_all_pods_are_listed_including_those_that_nobody_opened(tmp_path: Path) -> None:
    (tmp_path / "fresh").mkdir()
    (tmp_path / "fresh" / "status.json").write_text('{"pod_name":"fresh","segment_id":null,"state":"idle"}')
    async with (
        pods(tmp_path, "atlas", "fresh", "hermes"),
        served(WS, upstream=f"pod+dir:{tmp_path}") as (app, (url,)),
        SmoothClient.connected(url) as client,
    ):
        await client.turn("retry")
        for _ in range(2):
            listed = (await client.ask({"action": "list_conversations"}))["data"]["conversations"]
            assert {row["title"]: (row["conversationId"], row["messageCount"]) for row in listed} == {
                name: (conversation(tmp_path, name), count) for name, count in (("atlas", 2), ("hermes", 1))
            }  # a list connects to no pod, and no row of a smooth list may count 0: a fresh pod has no conversation
        assert titles(app) == ["atlas"]


async def test_a_client_that_names_no_pod_gets_the_first_free_one_or_busy(tmp_path: Path) -> None:
    for name in ("atlas", "busy", "hermes"):
        (tmp_path / name).mkdir()
    (tmp_path / "busy" / "status.json").write_text('{"pod_name":"busy","segment_id":null,"state":"running"}')
    async with (
        pods(tmp_path, "atlas", "busy", "hermes"),
        served(WS, upstream=f"pod+dir:{tmp_path}") as (_, (url,)),
        SmoothClient.connected(url) as one,
        SmoothClient.connected(url) as two,
    ):
        for client, name in ((one, "atlas"), (two, "hermes")):
            reply = await client.ask({"action": "get_session", "sessionId": client.session})
            assert reply["data"]["conversationId"] == conversation(tmp_path, name)
        assert (await opened(url))["error"]["message"].startswith("no pod is free; ")


@pytest.mark.parametrize("by", ["agent's name", "agent's id", "metadata", "conversation"])
async def test_a_client_that_names_a_pod_gets_that_pod(tmp_path: Path, by: str) -> None:
    naming: dict[str, dict[str, Any]] = {
        "agent's name": {"agentId": "hermes"},
        "agent's id": {"agentId": session_id("test", "hermes")},
        "metadata": {"metadata": {"pod": "hermes", "more": 1}},
        "conversation": {"conversationId": conversation(tmp_path, "hermes")},
    }
    async with pods(tmp_path, "atlas", "hermes"), served(WS, upstream=f"pod+dir:{tmp_path}") as (_, (url,)):
        reply = await opened(url, **naming[by])
        assert reply["data"]["conversationId"] == conversation(tmp_path, "hermes")
        again = await opened(url, agentId=reply["data"]["agentId"])
        assert by in ("metadata", "conversation") or again["data"] == reply["data"], "the id selects the same pod"


@pytest.mark.parametrize(("more", "lost"), [({}, []), ({"k": 1}, ["metadata"])], ids=["nothing else", "another key"])
async def test_metadata_that_named_the_pod_is_not_counted_as_lost(
    tmp_path: Path, more: dict[str, Any], lost: list[str]
) -> None:
    async with pods(tmp_path, "hermes"), served(WS, upstream=f"pod+dir:{tmp_path}") as (app, (url,)):
        await opened(url, metadata={"pod": "hermes", **more})
        assert [row.field for row in app.ledger.partial() if row.kind == "OpenSession"] == lost


async def test_a_client_that_names_its_pod_again_gets_the_same_agent_id(tmp_path: Path) -> None:
    async with (
        pods(tmp_path, "hermes"),
        served(WS, upstream=f"pod+dir:{tmp_path}") as (_, (url,)),
        SmoothClient.connected(url) as client,
    ):
        create = {"action": "create_conversation_session", "agentId": "hermes"}
        first = await client.ask(create)
        again = await client.ask({**create, "conversationId": first["data"]["conversationId"]})
        assert again["data"]["agentId"] == first["data"]["agentId"] == session_id("test", "hermes")


@pytest.mark.parametrize(
    "naming",
    [
        {"metadata": {"pod": "nobody"}},
        {"metadata": {"pod": "../atlas"}},
        {"agentId": "dead"},
        {"agentId": session_id("test", "dead")},
    ],
)
async def test_naming_a_pod_that_does_not_run_is_refused_and_opens_no_other(
    tmp_path: Path, naming: dict[str, Any]
) -> None:
    (tmp_path / "dead").mkdir()
    async with pods(tmp_path, "atlas"), served(WS, upstream=f"pod+dir:{tmp_path}") as (app, (url,)):
        assert (await opened(url, **naming))["error"]["code"] == "SESSION_NOT_FOUND"
        assert titles(app) == []


@pytest.mark.parametrize("agent", ["gone", session_id("test", "gone")])
async def test_naming_a_pod_that_has_ended_is_refused_and_opens_no_other(
    tmp_path: Path, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pods(tmp_path, "atlas"), served(WS, upstream=f"pod+dir:{tmp_path}") as (app, (url,)):
        async with pods(tmp_path, "gone"):
            assert (await opened(url, agentId=agent))["data"]["conversationId"] == conversation(tmp_path, "gone")
        shutil.rmtree(tmp_path / "gone")
        assert (await opened(url, agentId=agent))["error"]["code"] == "SESSION_NOT_FOUND"
        assert "atlas" not in titles(app)
        async with pods(tmp_path, "gone"):
            with monkeypatch.context() as patch:
                patch.setattr(Pods, "is_changed", lambda _pods: False)
                assert (await opened(url, agentId=agent))["error"]["code"] == "SESSION_NOT_FOUND", "not listed yet"
            assert (await opened(url, agentId=agent))["data"]["conversationId"] == conversation(tmp_path, "gone")


@pytest.mark.parametrize("metadata", [{}, {"pod": 5}, {"else": "x"}])
async def test_metadata_without_a_pod_name_has_no_effect(tmp_path: Path, metadata: dict[str, Any]) -> None:
    async with pods(tmp_path, "atlas"), served(WS, upstream=f"pod+dir:{tmp_path}") as (_, (url,)):
        assert (await opened(url, metadata=metadata))["data"]["conversationId"] == conversation(tmp_path, "atlas")


async def test_an_unknown_conversation_that_is_resumed_gets_a_free_pod(tmp_path: Path) -> None:
    async with pods(tmp_path, "atlas"), served(WS, upstream=f"pod+dir:{tmp_path}") as (_, (url,)):
        answer = await opened(url, conversationId=str(uuid4()))
        assert answer["data"]["conversationId"] == conversation(tmp_path, "atlas")


async def test_an_unknown_thread_that_is_resumed_is_refused_and_takes_no_pod(tmp_path: Path) -> None:
    listen = f"codewhale+unix:{tmp_path}/in.sock"
    async with pods(tmp_path / "pods", "atlas"), served(listen, upstream=f"pod+dir:{tmp_path}/pods") as (app, _):
        async with CodewhaleClient.connected(f"{tmp_path}/in.sock", thread="") as client:
            answer = await client.ask("thread/resume", thread_id=f"thread-{uuid4()}")
            assert answer["error"]["code"] == -32004
            assert titles(app) == []
            known = f"thread-{conversation(tmp_path / 'pods', 'atlas')}"
            assert (await client.call("thread/resume", thread_id=known))["thread_id"] == known
        assert titles(app) == ["atlas"]


async def test_a_pod_that_comes_later_is_found(tmp_path: Path) -> None:
    async with served(WS, upstream=f"pod+dir:{tmp_path}") as (_, (url,)):
        assert "error" in await opened(url)
        async with pods(tmp_path, "atlas"):
            assert (await opened(url))["data"]["conversationId"] == conversation(tmp_path, "atlas")


@pytest.mark.parametrize(
    ("wanted", "name"), [("", "atlas"), ("new", "atlas"), ("hermes", "hermes"), ("latest", "hermes")]
)
async def test_a_pod_listener_leads_to_one_of_the_pods(tmp_path: Path, wanted: str, name: str) -> None:
    listen = f"pod+unix:{tmp_path}/in.sock" + (f"?session={wanted}" if wanted else "")
    async with pods(tmp_path, "atlas", "hermes"), served(listen, upstream=f"pod+dir:{tmp_path}") as (app, _):
        os.utime(tmp_path / "atlas" / "sock", (1, 1))  # both were made within one tick of the file system's clock
        async with PodClient.connected(f"{tmp_path}/in.sock") as client:
            await client.turn("retry")
        assert titles(app) == [name]
        assert said(await read_output(f"{tmp_path}/{name}/sock")) == ["retry", "The second try worked."]


async def test_a_pod_client_without_a_free_pod_gets_an_error_and_is_disconnected(tmp_path: Path) -> None:
    async with served(f"pod+unix:{tmp_path}/in.sock", upstream=f"pod+dir:{tmp_path}/none"):
        reader, writer = await asyncio.open_unix_connection(f"{tmp_path}/in.sock")
        assert b'"event":"error"' in await reader.readline()
        assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize("by", ["agent", "conversation", "pod listener"])
async def test_a_client_with_too_many_sessions_is_told_the_limit_however_it_asks_for_a_pod(
    tmp_path: Path, by: str
) -> None:
    limits = structs.replace(LIMITS, principal_sessions=1)
    async with (
        pods(tmp_path, "atlas", "hermes"),
        served(WS, f"pod+unix:{tmp_path}/in.sock", upstream=f"pod+dir:{tmp_path}", limits=limits) as (_, (url, path)),
        SmoothClient.connected(url) as client,
    ):
        if by == "agent":
            refusal = str(await opened(url, agentId="hermes"))
        elif by == "conversation":
            named = conversation(tmp_path, "hermes")
            refusal = str(await client.ask({"action": "get_session", "sessionId": named}))
        else:
            reader, writer = await asyncio.open_unix_connection(path)
            refusal = str(await reader.read())
            writer.close()
        assert "the limit `principal_sessions` is 1" in refusal


async def test_a_pod_becomes_free_when_its_session_is_forgotten(tmp_path: Path) -> None:
    async with pods(tmp_path, "atlas"), served(WS, upstream=f"pod+dir:{tmp_path}") as (app, (url,)):
        async with SmoothClient.connected(url) as client:
            await client.turn("retry")
        (session,) = app.routers[0].sessions
        await until(lambda: not session.delivery.attachments)
        assert "error" in await opened(url)
        session.presence.suspend("session_ttl")
        assert app.routers[0].sessions == []
        assert (await opened(url))["data"]["conversationId"] == conversation(tmp_path, "atlas")


async def test_a_pod_that_was_forgotten_and_is_opened_again_is_refused_to_the_next_client(tmp_path: Path) -> None:
    async with pods(tmp_path, "atlas"), served(WS, upstream=f"pod+dir:{tmp_path}") as (app, (url,)):
        async with SmoothClient.connected(url) as client:
            await client.turn("retry")
        (session,) = app.routers[0].sessions
        await until(lambda: not session.delivery.attachments)
        session.presence.suspend("session_ttl")
        async with opening(url) as reply:
            assert "error" not in reply
            assert "error" in await opened(url)


async def test_a_directory_of_pods_can_be_served_in_front_of_another_directory(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    async with (
        pods(tmp_path / "real", "atlas"),
        served(f"pod+dir:{tmp_path}/ours", upstream=f"pod+dir:{tmp_path}/real") as (_, _),
        PodClient.connected(f"{tmp_path}/ours/test/sock") as client,
    ):
        await client.turn("retry")
        assert client.joined("text_delta") == "The second try worked."
