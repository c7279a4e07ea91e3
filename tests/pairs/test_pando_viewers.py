"""A pando viewer of a single pod sees its session without opening one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from dragoman.gateway.demo.backend import demo_backend
from dragoman.gateway.endpoint import parse
from tests.pairs.gateway import DEADLINE, LIMITS, bridged, serving
from tests.pairs.pando_client import PandoClient
from tests.pairs.pod_client import PodClient


@asynccontextmanager
async def pod_and_gateway(folder: Path) -> AsyncIterator[tuple[PodClient, str]]:
    """Yield a client of the pod itself, and the address of the pando listener of a gateway before that pod."""
    endpoint = f"pod+unix:{folder}/sock"
    async with (
        asyncio.timeout(DEADLINE),
        serving(demo_backend(parse(endpoint), limits=LIMITS)),
        PodClient.connected(f"{folder}/sock") as pod,
        bridged(endpoint, listen="pando+tcp://127.0.0.1:0") as (_, address),
    ):
        yield pod, address


async def test_a_subscriber_sees_the_turns_of_the_pod(tmp_path: Path) -> None:
    async with pod_and_gateway(tmp_path) as (pod, address), PandoClient.connected(address, session="") as viewer:
        while "llm.end" not in [topic for topic, _ in viewer.told]:  # what comes before the subscription is not seen
            await pod.turn("Hello")
        assert "".join(payload["token"] for topic, payload in viewer.told if topic == "llm.token")


async def test_the_first_list_and_the_first_sync_show_the_pods_session_with_its_messages(tmp_path: Path) -> None:
    for method in ("session.list", "state.sync"):
        folder = tmp_path / method
        folder.mkdir()
        async with pod_and_gateway(folder) as (pod, address), PandoClient.connected(address, session="") as viewer:
            await pod.turn("Hello")
            answer = await viewer.call(method)
            (row,) = answer["sessions"] if method == "state.sync" else answer
            assert row["message_count"] == 2
            said = await viewer.call("message.list", session_id=row["id"])
            assert [m["role"] for m in said] == ["user", "assistant"]
            assert said[0]["content"] == "Hello"
