"""A recording that continues with a live backend, on real sockets: its client sees one conversation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from dragoman.gateway.endpoint import parse
from tests.pairs.recorded import live_demo, record, served
from tests.pairs.table import DIALECTS
from tests.pairs.turn_clients import TurnClient, join

FIRST = "Where is my order?"
LIVE = [dialect for dialect in DIALECTS if dialect != "pando"]  # a pando refuses inputs from outside


@asynccontextmanager
async def forked(viewer: str, live: str, options: str, folder: Path) -> AsyncIterator[TurnClient]:
    """Connect a client to a recording of a pod that a live demo backend of this dialect continues."""
    recording = await record("pod", "pod", folder)
    async with live_demo(live, folder / "live") as upstream:
        replay = parse(f"replay+file:{recording}?speed=instant&{options}{quote(upstream, safe='')}")
        async with served(viewer, replay, folder / "replay") as url, join(viewer, url) as peer:
            yield peer


@pytest.mark.parametrize("live", LIVE)
@pytest.mark.parametrize("viewer", DIALECTS)
async def test_the_live_backend_continues_after_the_recorded_turn(viewer: str, live: str, tmp_path: Path) -> None:
    async with forked(viewer, live, "until=turn:1&then=", tmp_path) as peer:
        assert (await peer.turn(FIRST)).text.startswith("Let me look that up.")
        second = await peer.turn("count 5")
        assert (second.text, second.end) == ("0 1 2 3 4 ", "completed")
        said = await peer.history()
        assert [text for role, text in said if role == "user"] == [FIRST, "count 5"]


@pytest.mark.parametrize("live", LIVE)
async def test_unrecorded_inputs_go_to_the_live_backend_and_recorded_ones_are_replayed(
    live: str, tmp_path: Path
) -> None:
    async with forked("smooth", live, "mode=spy&upstream=", tmp_path) as peer:
        assert (await peer.turn("count 5")).text == "0 1 2 3 4 "
        assert (await peer.turn(FIRST)).text.startswith("Let me look that up.")
        assert (await peer.turn("slow", cancel_after=1)).end == "cancelled"
        assert (await peer.turn("Try again.")).text == "The second try worked."


async def test_a_pod_client_learns_that_the_live_backend_lacks_the_context(tmp_path: Path) -> None:
    async with forked("pod", "smooth", "until=turn:1&then=", tmp_path) as peer:
        await peer.turn(FIRST)
        await peer.client.until(lambda: "alert" in peer.client.names())
        (alert,) = [data for name, data in peer.client.events if name == "alert"]
        assert "continues without the 3 messages before" in alert["message"]
