"""The cost of a connect: the Python calls from the accepted connection of a client until it was shown its pod, and
those of the end of both connections.

Counted, never timed (docs/performance.md): a call is a `call` event of sys.setprofile in one of our three packages.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from tests.conformance.fake_pod import FakePod
from tests.gateway.test_token_path import counting
from tests.pairs.gateway import DEADLINE, SmoothClient, bridged, socket_path

CONNECT_MAX, END_MAX = 522, 249
LOGGED_BY_ASYNCIO = "logs._Bridge.emit"  # of the fake pod, whose peer has left
WARM = 2  # connects before the one that is counted: they pay for decoders and tables
LONG_AGO = 1_000_000_000  # seconds: a folder that has just changed may have changed again, so it is read again


def test_a_smooth_client_is_connected_to_its_pod_and_leaves_in_few_calls(tmp_path: Path) -> None:
    opened, ended = (
        [call for call in calls if call != LOGGED_BY_ASYNCIO] for calls in asyncio.run(calls_of_a_connect(tmp_path))
    )
    assert CONNECT_MAX / 2 < len(opened) <= CONNECT_MAX, "\n".join(sorted(opened))
    assert END_MAX / 2 < len(ended) <= END_MAX, "\n".join(sorted(ended))


async def calls_of_a_connect(folder: Path) -> tuple[list[str], list[str]]:
    """Return the calls of a connect, and those of its end."""
    pods = socket_path(folder).parent
    async with AsyncExitStack() as stack:
        for number in range(WARM + 1):
            (pods / f"pod{number}").mkdir()
            await stack.enter_async_context(FakePod.serving(pods / f"pod{number}" / "sock"))
            os.utime(pods / f"pod{number}", (LONG_AGO, LONG_AGO))
        os.utime(pods, (LONG_AGO, LONG_AGO))
        app, url = await stack.enter_async_context(bridged(f"pod+dir:{pods}"))
        status = app.upstreams.statuses["test"]
        for _ in range(WARM):
            async with SmoothClient.connected(url):
                await until(lambda: status.heard == 1)
            await until(lambda: not app.links and not status.wanted)
        async with AsyncExitStack() as connection:
            with counting() as opened:
                await connection.enter_async_context(SmoothClient.connected(url))
                await until(lambda: status.heard == 1)
            with counting() as ended:
                await connection.aclose()
                await until(lambda: not app.links and not status.wanted)
        return opened, ended


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(DEADLINE):
        while not holds():  # noqa: ASYNC110  # the counts of the gateway set no event
            await asyncio.sleep(0)
