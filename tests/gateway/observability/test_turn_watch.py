"""The turns of a gateway in its log, and the traces that clients bring and backends get."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest
import websockets
from structlog.testing import capture_logs

from dragoman.gateway.demo.backend import demo_backend
from dragoman.gateway.endpoint import parse
from dragoman.gateway.observability import logs
from tests.conformance.fake_smooth import FakeSmooth
from tests.gateway.test_observability import PARENT
from tests.pairs.gateway import SmoothClient, bridged, serving
from tests.pairs.pod_client import PodClient

ID = PARENT[3:35]


@pytest.fixture(autouse=True)
def debug() -> None:
    logs.LEVEL.change(components={"turn": "debug"})


async def turn_lines(message: str = "hello") -> list[MutableMapping[str, Any]]:
    """Return the lines about the turn of one message, until it ends."""
    with capture_logs() as lines:
        async with (
            FakeSmooth.serving() as backend,
            bridged(backend.url) as (_app, url),
            SmoothClient.connected(url) as client,
        ):
            await client.turn(message)
    return [line for line in lines if "turn" in line and line["log_level"] == "debug"]


async def test_a_turn_can_be_followed_without_its_content() -> None:
    lines = await turn_lines("what is the secret?")
    names = [line["event"] for line in lines]
    assert names[-1] == "turn ended"
    assert {"input", "turn accepted"} <= set(names)
    assert "secret" not in str(lines)
    assert len({(line["turn"], line["session"], line["link"], line["principal"]) for line in lines}) == 1


async def test_content_is_logged_if_it_is_asked_for() -> None:
    logs.LEVEL.shows_content = True
    lines = await turn_lines("what is the secret?")
    (said,) = (line for line in lines if line["event"] == "input")
    assert said["content"] == "what is the secret?"


@pytest.mark.parametrize(
    ("message", "answer", "moments"),
    [
        ("approve", "approve", [("tool started", "refund_order"), ("question", "refund_order"), ("answer", True)]),
        ("form", "skip", [("question", "identity_intake"), ("answer", True)]),
    ],
)
async def test_the_tools_and_questions_of_a_turn_are_moments_of_it(
    message: str, answer: str, moments: list[tuple[str, object]], tmp_path: Path
) -> None:
    listen = f"pod+unix:{tmp_path}/pod"
    with capture_logs() as lines:
        async with (
            serving(demo_backend(parse("smooth+ws://127.0.0.1:0/ws"))) as (backend,),
            bridged(backend, listen=listen) as (_app, path),
            PodClient.connected(path.removeprefix("unix:")) as client,
        ):
            await client.turn(message)
            await client.turn(answer)
    facts = ("tool", "kind", "approved", "declined")
    found = [(line["event"], fact) for line in lines for name in facts if (fact := line.get(name)) is not None]
    noted = dict.fromkeys(moment for moment in found if moment in moments)  # the demo backend logs them, too
    assert [*noted] == moments


async def test_a_turn_is_logged_only_at_level_debug() -> None:
    logs.LEVEL.change(components={"turn": "info"})
    assert not await turn_lines()


@asynccontextmanager
async def noted_backend() -> AsyncIterator[tuple[str, list[str], list[Any]]]:
    """Serve a backend that refuses each session; yield its endpoint, the traces of handshakes, and the metadata."""
    handshakes: list[str] = []
    opened: list[Any] = []

    async def serve(socket: websockets.ServerConnection) -> None:
        assert socket.request is not None
        handshakes.append(socket.request.headers.get("traceparent", ""))
        async for message in socket:
            action = json.loads(message)
            opened.append(action.get("metadata"))
            error = {"code": "INTERNAL_ERROR", "message": "no"}
            about = {"requestId": action["requestId"], "error": error}
            await socket.send(json.dumps({"type": "error", "timestamp": 1, **about, "data": about}))

    async with websockets.serve(serve, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield f"smooth+ws://127.0.0.1:{port}/ws", handshakes, opened


async def open_session(url: str, headers: dict[str, str], **fields: Any) -> None:
    """Try to open a session, and return once there is an answer."""
    action = {"action": "create_conversation_session", "requestId": "r", "agentId": str(uuid4()), **fields}
    async with aiohttp.ClientSession() as http, http.ws_connect(url, headers=headers) as socket:
        await socket.send_json(action)
        await socket.receive()


@pytest.mark.parametrize(
    ("headers", "fields"),
    [({"traceparent": PARENT}, {}), ({}, {"metadata": {"traceparent": PARENT}})],
    ids=["handshake", "metadata"],
)
async def test_a_trace_goes_from_a_client_to_its_backend(headers: dict[str, str], fields: dict[str, Any]) -> None:
    async with noted_backend() as (upstream, handshakes, opened), bridged(upstream) as (_app, url):
        await open_session(url, headers, **fields)
        assert handshakes == [PARENT]
        assert opened == [{"traceparent": PARENT}]


@pytest.mark.parametrize("headers", [{"traceparent": "00-no"}, {}])
async def test_without_a_good_trace_the_backend_gets_none(headers: dict[str, str]) -> None:
    async with noted_backend() as (upstream, handshakes, opened), bridged(upstream) as (_app, url):
        await open_session(url, headers)
        assert (handshakes, opened) == ([""], [None])


async def test_the_lines_of_a_client_have_its_trace() -> None:
    with capture_logs() as lines:
        async with noted_backend() as (upstream, _, _), bridged(upstream) as (_app, url):
            await open_session(url, {"traceparent": PARENT})
    assert [line["trace"] for line in lines if line["event"] in ("client connected", "audit")] == [ID, ID]
