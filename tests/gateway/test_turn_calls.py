"""The cost of a turn's opening and end: the Python calls for the input of a client and a short answer of its backend.

Counted, never timed (docs/performance.md): a call is a `call` event of sys.setprofile in one of our three packages.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from tests.conformance.fake_pod import FakePod
from tests.conformance.fake_smooth import FakeSmooth
from tests.gateway.test_token_path import counting
from tests.pairs.gateway import SmoothClient, bridged, socket_path
from tests.pairs.pod_client import PodClient

FROM_POD_MAX, FROM_SMOOTH_MAX = 336, 337  # the goal is 350 (docs/performance.md)


def test_a_turn_of_a_smooth_client_before_a_pod_opens_and_ends_in_few_calls(tmp_path: Path) -> None:
    calls = asyncio.run(calls_from_pod(tmp_path))
    assert calls, "nothing was counted"
    assert len(calls) <= FROM_POD_MAX, "\n".join(sorted(calls))


def test_a_turn_of_a_pod_client_before_a_smooth_server_opens_and_ends_in_few_calls(tmp_path: Path) -> None:
    calls = asyncio.run(calls_from_smooth(tmp_path))
    assert calls, "nothing was counted"
    assert len(calls) <= FROM_SMOOTH_MAX, "\n".join(sorted(calls))


async def calls_from_pod(folder: Path) -> list[str]:
    path = socket_path(folder)
    async with (
        FakePod.serving(path),
        bridged(f"pod+unix:{path}") as (_app, url),
        SmoothClient.connected(url) as client,
    ):
        for number in range(3):  # the first turns pay for decoders
            await client.say("hello")
            await client.until(lambda number=number: len(client.terminals()) == number + 1)
        with counting() as called:
            await client.say("hello")
            await client.until(lambda: len(client.terminals()) == 4)
        return called


async def calls_from_smooth(folder: Path) -> list[str]:
    path = str(socket_path(folder))
    async with (
        FakeSmooth.serving() as server,
        bridged(server.url, listen=f"pod+unix:{path}"),
        PodClient.connected(path) as client,
    ):
        for number in range(3):  # the first turns pay for decoders
            await client.say("hello")
            await client.until(partial(has_ended, client, number + 1))
        with counting() as called:
            await client.say("hello")
            await client.until(partial(has_ended, client, 4))
        return called


def has_ended(client: PodClient, turns: int) -> bool:
    return client.names().count("run_end") == turns and client.names()[-1] == "status"
