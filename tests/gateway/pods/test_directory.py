"""`pod+dir:` as a listener: a folder for new sessions and one for each session; only there clients see more than their
own session.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.awaited import until
from tests.pairs.gateway import SmoothClient
from tests.pairs.pod_client import PodClient
from tests.pairs.pod_parent import probe, read_output, said, send
from tests.pairs.test_pod_listener import quiet, served

WS = "smooth+ws://127.0.0.1:0/ws"


@pytest.fixture
def base() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="pods-") as short:  # a socket's path has 107 bytes, a session's id 36
        yield Path(short) / "run"


def folders(base: Path) -> set[str]:
    """Return the folders in which clients can connect now."""
    return {path.parent.name for path in base.glob("*/sock")}


def status(base: Path, name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((base / name / "status.json").read_text())
    return content


async def answer(client: PodClient, method: str, event: str, **params: Any) -> dict[str, Any]:
    """Send a request, and wait for the first event of this kind after it."""
    seen = len(client.events)
    await client.send(method, **params)
    await client.until(lambda: event in client.names()[seen:])
    return next(data for name, data in client.events[seen:] if name == event)


async def test_without_a_session_there_is_one_folder_named_after_the_route(base: Path) -> None:
    async with served(f"pod+dir:{base}") as (app, (address,)):
        assert address == f"dir:{base}"
        assert folders(base) == {"test"}
        assert stat.S_IMODE((base / "test").stat().st_mode) == 0o700
        assert (base / "test" / "pid").read_text() == str(os.getpid())
        assert status(base, "test") == {"pod_name": "test", "segment_id": None, "state": "idle"}
        await probe(f"{base}/test/sock")
        await probe(f"{base}/test/sock")
        assert await send(f"{base}/test/sock", "retry") == "accepted"
        await until(lambda: quiet(app))
        shown = await read_output(f"{base}/test/sock")
        assert (said(shown), shown["greeting"]["pod_name"]) == (["retry", "The second try worked."], "test")
        assert folders(base) == {"test"}
    assert not (base / "test").exists()


async def test_each_session_that_a_client_opens_has_a_folder_with_its_status(base: Path) -> None:
    async with served(f"pod+dir:{base}", WS) as (app, (_, url)), SmoothClient.connected(url) as smooth:
        (session,) = app.routers[0].sessions
        name = session.state.id
        await until(lambda: folders(base) == {"test", name})
        async with PodClient.connected(f"{base}/{name}/sock") as pod:
            assert pod.events[0][1]["greeting"]["pod_name"] == name
            await smooth.say("slow")
            await until(lambda: status(base, name)["state"] == "running")
            assert status(base, name) == {"pod_name": name, "segment_id": name, "state": "running"}
            await pod.send("cancel")
            await until(lambda: status(base, name)["state"] == "idle")
    assert not base.joinpath(name).exists()


async def test_the_folder_of_a_session_is_removed_with_it(base: Path) -> None:
    async with served(f"pod+dir:{base}", WS) as (app, (_, url)):
        async with SmoothClient.connected(url):
            await until(lambda: len(folders(base)) == 2)
            (session,) = app.routers[0].sessions
        app.routers[0]._all.drop(session)
        await until(lambda: folders(base) == {"test"})
        await until(lambda: not (base / session.state.id).exists())  # its socket goes first


async def test_the_folder_of_a_titled_session_is_named_after_the_first_title(base: Path) -> None:
    async with served(f"pod+dir:{base}", WS) as (app, _):
        (base / "Order").mkdir()
        router = app.routers[0]
        for title in ("Holiday", "Holiday", "Order", "a/b", "..", "讓" * 40):
            session = router.backend.session_for_listener("new", "local")
            assert session is not None
            session.state.title, session.state.owner = title, "local"
            router._all.announce(session)
        ids = [session.state.id for session in router.sessions]
        names = {"test", "Holiday", f"Holiday-{ids[1][:8]}", f"Order-{ids[2][:8]}", ids[3], ids[4], "讓" * 13}
        await until(lambda: folders(base) == names)


async def test_a_name_with_too_long_a_path_loses_only_its_folder(tmp_path: Path) -> None:
    base = tmp_path / ("x" * (90 - len(str(tmp_path))))
    async with served(f"pod+dir:{base}", WS) as (_, (_, url)), SmoothClient.connected(url) as smooth:
        await smooth.turn("retry")
        assert folders(base) == {"test"}


async def test_clients_of_one_pod_list_and_reach_all_pods_of_the_directory(base: Path) -> None:
    async with (
        served(f"pod+dir:{base}", WS) as (app, (_, url)),
        SmoothClient.connected(url),
        PodClient.connected(f"{base}/test/sock") as pod,
    ):
        other = next(s for s in app.routers[0].sessions if s.state.backend_ids is not None)
        await until(lambda: other.state.id in folders(base))
        listed = (await answer(pod, "list_visible_pods", "visible_pods"))["pods"]
        rows = {row["pod_name"]: (row["visibility"], row["live"]["socket_path"], row["state"]) for row in listed}
        assert rows == {
            "test": ("self_pod", f"{base}/test/sock", "readable"),
            other.state.id: ("spawned_child", f"{base}/{other.state.id}/sock", "readable"),
        }
        assert [row["pod_name"] for row in listed] == sorted(rows)
        inspected = (await answer(pod, "inspect_pod", "pod_inspection", name=other.state.id))["pod"]
        assert (inspected["visibility"], "state" in inspected) == ("spawned_child", False)
        attached = (await answer(pod, "attach_or_restore_pod", "pod_attach_restore", name=other.state.id))["result"]
        assert attached == {
            "action": "attached",
            "pod_name": other.state.id,
            "socket_path": f"{base}/{other.state.id}/sock",
            "status": "idle",
        }
        async with PodClient.connected(attached["socket_path"]) as there:
            mine = (await answer(there, "list_visible_pods", "visible_pods"))["pods"]
            assert {row["pod_name"] for row in mine if row["visibility"] == "self_pod"} == {other.state.id}
        refused = await answer(pod, "inspect_pod", "error", name="nobody")
        assert refused["code"] == "invalid_request"
        assert pod.names().count("snapshot") == 1


async def test_without_a_directory_a_client_lists_only_its_own_session(tmp_path: Path) -> None:
    socket = f"{tmp_path}/atlas.sock"
    async with (
        served(f"pod+unix:{socket}", WS) as (app, (_, url)),
        SmoothClient.connected(url),
        PodClient.connected(socket) as pod,
    ):
        (row,) = (await answer(pod, "list_visible_pods", "visible_pods"))["pods"]
        assert (row["pod_name"], row["visibility"]) == ("atlas", "self_pod")
        assert (await answer(pod, "inspect_pod", "pod_inspection", name="atlas"))["pod"]["pod_name"] == "atlas"
        other = next(s for s in app.routers[0].sessions if s.state.backend_ids is not None)
        assert (await answer(pod, "inspect_pod", "error", name=other.state.id))["code"] == "invalid_request"


async def test_a_directory_used_by_a_live_pod_is_refused(base: Path) -> None:
    async with served(f"pod+dir:{base}"):
        with pytest.raises(BaseExceptionGroup) as refused:
            async with served(f"pod+dir:{base}"):
                await asyncio.Event().wait()
        assert "another process listens here" in repr(refused.value)
        assert folders(base) == {"test"}
