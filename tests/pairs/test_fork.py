"""A recording, then a live backend, on real sockets: the conversation is one to its client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from gateway.demo.app import demo_backend
from gateway.endpoint import parse
from tests.pairs.gateway import bridged
from tests.pairs.recorded import LISTEN, record, served
from tests.pairs.table import DIALECTS
from tests.pairs.turns import Peer, join

LIVE = ("smooth", "pod", "codewhale")
FIRST = "Where is my order?"


@asynccontextmanager
async def forked(viewer: str, live: str, options: str, folder: Path) -> AsyncIterator[Peer]:
    """A client of a recording of a pod, behind which a live demo backend of this dialect stands."""
    recording = await record("pod", "pod", folder)
    (folder / "live").mkdir()
    demo = demo_backend(parse(LISTEN[live].format(folder=folder / "live")))
    ready: asyncio.Queue[str] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        group.create_task(demo.run(ready.put_nowait), name="live")
        upstream = options + quote(await ready.get(), safe="")
        replay = parse(f"replay+file:{recording}?speed=instant&{upstream}")
        async with served(viewer, replay, folder / "replay") as url, join(viewer, url) as peer:
            yield peer
        demo.stop.set()


@pytest.mark.parametrize("live", LIVE)
@pytest.mark.parametrize("viewer", DIALECTS)
async def test_after_the_recorded_turn_the_live_backend_goes_on(viewer: str, live: str, tmp_path: Path) -> None:
    async with forked(viewer, live, "until=turn:1&then=", tmp_path) as peer:
        assert (await peer.turn(FIRST)).text.startswith("Let me look that up.")
        second = await peer.turn("count 5")
        assert (second.text, second.end) == ("0 1 2 3 4 ", "completed")
        said = await peer.history()
        assert [text for role, text in said if role == "user"] == [FIRST, "count 5"]


@pytest.mark.parametrize("live", LIVE)
async def test_what_is_not_recorded_goes_to_the_live_backend_and_the_rest_is_played(live: str, tmp_path: Path) -> None:
    async with forked("smooth", live, "mode=spy&upstream=", tmp_path) as peer:
        assert (await peer.turn("count 5")).text == "0 1 2 3 4 "
        assert (await peer.turn(FIRST)).text.startswith("Let me look that up.")
        assert (await peer.turn("slow", cancel_after=1)).end == "cancelled"
        assert (await peer.turn("Try again.")).text == "The second try worked."


async def test_a_pando_stands_behind_a_recording_with_a_gateway_before_it(tmp_path: Path) -> None:
    """As the error says that refuses one without."""
    demo = demo_backend(parse(LISTEN["pando"]))
    ready: asyncio.Queue[str] = asyncio.Queue()
    recording = await record("pod", "pod", tmp_path)
    async with asyncio.TaskGroup() as group:
        group.create_task(demo.run(ready.put_nowait), name="live")
        pod = f"pod+unix:{tmp_path}/live.sock"
        async with bridged(await ready.get(), listen=f"{pod}?session=new"):
            replay = parse(f"replay+file:{recording}?speed=instant&mode=spy&upstream={quote(pod, safe='')}")
            async with served("smooth", replay, tmp_path / "replay") as url, join("smooth", url) as peer:
                assert (await peer.turn("count 5")).text == "0 1 2 3 4 "
                assert (await peer.turn(FIRST)).text.startswith("Let me look that up.")
        demo.stop.set()


async def test_a_pod_client_is_told_what_the_live_backend_does_not_know(tmp_path: Path) -> None:
    async with forked("pod", "smooth", "until=turn:1&then=", tmp_path) as peer:
        await peer.turn(FIRST)
        await peer.client.until(lambda: "alert" in peer.client.names())
        (alert,) = [data for name, data in peer.client.events if name == "alert"]
        assert "goes on without the 3 messages before" in alert["message"]
