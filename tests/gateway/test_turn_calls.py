"""The cost of a turn's opening and end: the Python calls for an input of a smooth client and a short answer of a pod.

Counted, never timed (docs/performance.md): a call is a `call` event of sys.setprofile in one of our three packages.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.conformance.fake_pod import FakePod
from tests.gateway.test_token_path import counting
from tests.pairs.gateway import SmoothClient, bridged, socket_path

CALLS_MAX = 346  # 350 is the goal (docs/performance.md)


def test_a_turn_opens_and_ends_in_few_calls(tmp_path: Path) -> None:
    calls = asyncio.run(calls_of_a_turn(tmp_path))
    assert calls, "nothing was counted"
    assert len(calls) <= CALLS_MAX, "\n".join(sorted(calls))


async def calls_of_a_turn(folder: Path) -> list[str]:
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
