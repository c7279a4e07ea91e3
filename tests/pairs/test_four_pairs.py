"""smooth and pod, each as client and as backend: what each client must see, in one table for all four pairs.

The backend is the demo backend, served in the backend's dialect; it plays the same scripts in both.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.config.model import Limits
from gateway.demo.client import demo_backend
from gateway.endpoint import parse
from tests.pairs.gateway import bridged
from tests.pairs.turns import Peer, join

DIALECTS = ("smooth", "pod")
ANSWER = (
    "Let me look that up. Order A-1042 has shipped with Kestrel and should reach you on Thursday — 木曜日に届きます。"
)
THOUGHT = "The user asks about an order. I should look it up before I answer."
LISTEN = {"smooth": "smooth+ws://127.0.0.1:0/ws", "pod": "pod+unix:{folder}/{name}/sock"}


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
