"""A smooth client that does not read, on a real socket: it costs bounded memory, delays no other, and gets
everything.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from dragoman.gateway.app import App
from dragoman.gateway.config.model import Limits
from dragoman.gateway.demo.backend import demo_backend
from dragoman.gateway.endpoint import parse
from tests.pairs.gateway import DEADLINE, SmoothClient, bridged, serving

TOKENS = 40_000  # more than the buffers of the sockets hold


async def test_a_client_that_does_not_read_delays_no_other(tmp_path: Path) -> None:
    pod = f"pod+unix:{tmp_path}/sock"
    limits = Limits(drain_deadline=0.5, outbox_soft=64 * 1024, log_max=2 * TOKENS)
    async with (
        serving(demo_backend(parse(pod))),
        bridged(pod, limits=limits) as (app, url),
        SmoothClient.connected(url) as reading,
        SmoothClient.connected(url) as stalled,
    ):
        stalled.stop_reading()
        waiting = await largest_outbox(app, reading)
        assert waiting < 4 * limits.outbox_soft, "one batch above the soft limit at most"
        expected = "".join(f"{n} " for n in range(TOKENS))
        assert reading.terminals()[0]["data"]["data"]["response"]["responseParts"] == [expected]
        stalled.read_on()
        await stalled.until(lambda: bool(stalled.terminals()))
        tokens = [f["token"] for f in stalled.frames if f["type"] == "stream_token"]
        assert "".join(tokens) == expected
        assert len(tokens) < TOKENS, "text deltas were merged for it"


async def largest_outbox(app: App, reading: SmoothClient) -> int:
    """Let the backend count; return the largest number of frames that waited for any client meanwhile."""
    largest = 0
    await reading.say(f"count {TOKENS}")
    async with asyncio.timeout(DEADLINE):
        while not reading.terminals():
            await reading.news()
            largest = max([largest, *(link.outbox.size for link in app.links)])
    return largest
