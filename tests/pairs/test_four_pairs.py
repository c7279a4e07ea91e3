"""smooth and pod, each as client and as backend: what each client must see, in one table for all four pairs.

The backend is the demo backend, served in the backend's dialect; it plays the same scripts in both.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.config import Limits
from gateway.demo.client import demo_backend
from gateway.endpoint import parse
from tests.pairs.gateway import SmoothClient, bridged
from tests.pairs.pod_client import PodClient

DIALECTS = ("smooth", "pod")
ANSWER = (
    "Let me look that up. Order A-1042 has shipped with Kestrel and should reach you on Thursday — 木曜日に届きます。"
)
THOUGHT = "The user asks about an order. I should look it up before I answer."
LISTEN = {"smooth": "smooth+ws://127.0.0.1:0/ws", "pod": "pod+unix:{folder}/{name}/sock"}


class Seen:
    """What a client saw of its last turn, whatever its dialect."""

    def __init__(self, text: str, thought: str, calls: list[str], results: int, end: str) -> None:
        self.text = text
        self.thought = thought
        self.calls = calls
        self.results = results
        self.end = end


async def smooth_turn(client: SmoothClient, text: str, cancel_after: int = 0) -> Seen:
    request = await client.say(text)
    ends = ("eventual_response", "error", "cancelled")
    if cancel_after:
        await client.until(lambda: len([f for f in client.of(request) if f["type"] == "stream_token"]) >= cancel_after)
        await client.send({"action": "cancel", "sessionId": client.session})
    await client.until(lambda: any(f["type"] in ends for f in client.of(request)))
    frames = client.of(request)
    raw = [f["data"]["state"]["rawResponse"] for f in frames if f["type"] == "stream_chunk"]
    assert [f["type"] for f in frames if f["type"] in ends] == [frames[-1]["type"]], (
        "one terminal, and nothing after it"
    )
    return Seen(
        text="".join(f["token"] for f in frames if f["type"] == "stream_token"),
        thought="".join(f["token"] for f in frames if f["type"] == "stream_reasoning"),
        calls=[chunk["toolCall"]["name"] for chunk in raw if "toolCall" in chunk],
        results=sum(1 for chunk in raw if "toolResult" in chunk),
        end={"eventual_response": "completed", "error": "failed", "cancelled": "cancelled"}[frames[-1]["type"]],
    )


async def pod_turn(client: PodClient, text: str, cancel_after: int = 0) -> Seen:
    before, start = client.idle(), len(client.events)
    await client.say(text)
    if cancel_after:
        await client.until(lambda: client.names()[start:].count("text_delta") >= cancel_after)
        await client.send("cancel")
    await client.until(lambda: client.idle() > before)
    told = client.events[start:]
    names = [name for name, _ in told]
    assert names.count("user_message") == 1
    assert "turn_start" in names, "a pod's parent waits for it"
    errors = [data["message"] for name, data in told if name == "error"]
    end = "completed" if "run_end" in names else "cancelled" if errors == ["Cancelled"] else "failed"
    return Seen(
        text="".join(data["text"] for name, data in told if name == "text_delta"),
        thought="".join(data["text"] for name, data in told if name == "thinking_delta"),
        calls=[data["name"] for name, data in told if name == "tool_call_done"],
        results=names.count("tool_result"),
        end=end,
    )


class Peer:
    """A client of either dialect."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def turn(self, text: str, cancel_after: int = 0) -> Seen:
        if isinstance(self.client, SmoothClient):
            return await smooth_turn(self.client, text, cancel_after)
        return await pod_turn(self.client, text, cancel_after)


@asynccontextmanager
async def pair(client: str, backend: str, folder: Path) -> AsyncIterator[tuple[Peer, str]]:
    """A gateway between a client of one dialect and the demo backend in another; and where further clients connect."""
    for name in ("backend", "atlas"):
        (folder / name).mkdir()
    app = demo_backend(parse(LISTEN[backend].format(folder=folder, name="backend")))
    ready: asyncio.Queue[str] = asyncio.Queue()
    limits = Limits(drain_deadline=0.5)
    async with asyncio.TaskGroup() as group:
        group.create_task(app.run(ready.put_nowait), name="backend")
        listen = LISTEN[client].format(folder=folder, name="atlas")
        async with bridged(await ready.get(), listen=listen, limits=limits) as (_, url), join(client, url) as peer:
            yield peer, url
        app.stop.set()


@asynccontextmanager
async def join(dialect: str, url: str) -> AsyncIterator[Peer]:
    if dialect == "smooth":
        async with SmoothClient.connected(url) as smooth:
            yield Peer(smooth)
    else:
        async with PodClient.connected(url.removeprefix("unix:")) as pod:
            yield Peer(pod)


pairs = pytest.mark.parametrize(("client", "backend"), [(c, b) for c in DIALECTS for b in DIALECTS])


@pairs
async def test_a_streamed_turn_arrives_whole_and_a_second_one_after_it(
    client: str, backend: str, tmp_path: Path
) -> None:
    async with pair(client, backend, tmp_path) as (peer, _):
        seen = await peer.turn("Where is my order?")
        assert (seen.text, seen.thought) == (ANSWER, THOUGHT)
        assert (seen.calls, seen.results, seen.end) == (["lookup_order"], 1, "completed")
        second = await peer.turn("Thank you!")
        assert second.text.startswith("You are welcome.")
        assert second.end == "completed"


@pairs
async def test_a_failing_turn_ends_once_and_the_next_one_works(client: str, backend: str, tmp_path: Path) -> None:
    async with pair(client, backend, tmp_path) as (peer, _):
        seen = await peer.turn("fail please")
        assert (seen.text, seen.end) == ("I was about to say", "failed")
        assert (await peer.turn("retry")).text == "The second try worked."


@pairs
async def test_a_cancelled_turn_ends_once_and_the_next_one_works(client: str, backend: str, tmp_path: Path) -> None:
    async with pair(client, backend, tmp_path) as (peer, _):
        seen = await peer.turn("slow please", cancel_after=2)
        assert seen.end == "cancelled"
        assert seen.text.startswith("0 1 ")
        assert (await peer.turn("retry")).end == "completed"


@pairs
async def test_two_thousand_tokens_arrive_in_order(client: str, backend: str, tmp_path: Path) -> None:
    async with pair(client, backend, tmp_path) as (peer, _):
        assert (await peer.turn("count 2000")).text == "".join(f"{n} " for n in range(2000))


@pytest.mark.parametrize("backend", DIALECTS)
async def test_a_pod_client_is_greeted_by_the_name_of_its_folder(backend: str, tmp_path: Path) -> None:
    async with pair("pod", backend, tmp_path) as (peer, _):
        name, data = peer.client.events[0]
        assert name == "snapshot"
        assert data["greeting"]["pod_name"] == ("atlas" if backend == "smooth" else "demo")
        assert peer.client.names().count("snapshot") == 1
