"""A primary that is replaced, on real sockets: its clients are told, and see the sessions of the next one."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config, Route
from dragoman.gateway.endpoint import parse
from tests.pairs.gateway import SmoothClient, serving
from tests.pairs.pando_client import PandoClient
from tests.pairs.pando_primary import PandoPrimary, message, row
from tests.pairs.pod_client import PodClient
from tests.pairs.recorded import LIMITS

ONE, OTHER = "0b0e9b0e-0000-4000-8000-000000000001", "0b0e9b0e-0000-4000-8000-000000000002"
BEFORE = (message("m-1", "user", "Where?"), message("m-2", "assistant", "Here."))
SINCE = (message("m-3", "user", "When?"), message("m-4", "assistant", "Now."))


class Clients(Struct):
    """A client of each dialect, all in session ONE of the primary."""

    smooth: SmoothClient
    pod: PodClient
    pando: PandoClient

    async def see(self, token: str) -> None:
        """Wait until each client received this piece of an answer."""
        await self.smooth.until(lambda: token in [f.get("token") for f in self.smooth.frames])
        await self.pod.until(lambda: token in self.pod.joined("text_delta"))
        await self.pando.until(lambda: token in [p.get("token") for _, p in self.pando.told])

    async def see_a_failure(self) -> None:
        """Wait until each client received the failed end of the open turn."""
        await self.smooth.until(lambda: any(f["type"] == "error" for f in self.smooth.frames))
        await self.pod.until(lambda: self.pod.idle() > 0)
        await self.pando.until(lambda: "llm.end" in self.pando.topics())
        assert [f["type"] for f in self.smooth.terminals()] == ["error"]
        assert [data["code"] for name, data in self.pod.events if name == "error"] == ["internal"]
        assert [name for name in self.pod.names() if name == "run_end"] == []
        assert [role for role, _ in self.pando.shown if role == "system"] == ["system"], "the cause, before llm.end"


@asynccontextmanager
async def gateway(upstream: str, folder: Path) -> AsyncIterator[Clients]:
    """Run a gateway with listeners of three dialects, and connect a client to each."""
    (folder / "atlas").mkdir()
    listen = ("smooth+ws://127.0.0.1:0/ws", f"pod+unix:{folder}/atlas/sock", "pando+tcp://127.0.0.1:0")
    route = Route(name="test", listen=tuple(map(parse, listen)), upstream=parse(upstream))
    app = App(Config(routes=(route,), limits=LIMITS))
    async with asyncio.timeout(50), serving(app) as endpoints:
        smooth_at, pod_at, pando_at = [endpoint.partition("+")[2] for endpoint in endpoints]
        async with (
            PodClient.connected(pod_at.removeprefix("unix:")) as pod,
            SmoothClient.connected(smooth_at) as smooth,
            PandoClient.connected(pando_at, session=ONE) as pando,
        ):
            await smooth.ask({"action": "get_session", "sessionId": ONE})
            yield Clients(smooth=smooth, pod=pod, pando=pando)


async def said(smooth: SmoothClient) -> list[str]:
    """Return the history of session ONE, oldest first."""
    answer = await smooth.ask({"action": "get_conversation_messages", "sessionId": ONE})
    return [m["content"]["text"] for m in reversed(answer["data"]["messages"])]


async def test_another_instance_on_the_same_connection_fails_the_turn_and_brings_its_own_history(
    tmp_path: Path,
) -> None:
    async with PandoPrimary.listening("i-1") as primary:
        primary.has(row(ONE), *BEFORE)
        async with gateway(primary.endpoint, tmp_path) as clients:
            await primary.publish("llm.token", session_id=ONE, token="Hel")
            await clients.see("Hel")
            lists, histories = primary.called.count("session.list"), primary.called.count("message.list")
            primary.instance = "i-2"
            primary.has(row(ONE), *BEFORE, *SINCE)
            await primary.beat()
            await clients.see_a_failure()
            await primary.was_called("session.list", lists + 1)
            await primary.was_called("message.list", histories + 1)
            await clients.pod.until(lambda: clients.pod.names()[-1] == "segment_rotated")
            assert "Now." in json.dumps(clients.pod.events[-1], ensure_ascii=False)
            assert await said(clients.smooth) == ["Where?", "Here.", "When?", "Now."]


async def test_a_primary_that_comes_back_as_another_fails_the_turn_and_brings_its_own_history(tmp_path: Path) -> None:
    async with PandoPrimary.listening("i-1") as primary:
        primary.has(row(ONE), *BEFORE)
        async with gateway(primary.endpoint, tmp_path) as clients:
            await primary.publish("llm.token", session_id=ONE, token="Hel")
            await clients.see("Hel")
            primary.close()
            await clients.see_a_failure()
            async with PandoPrimary.listening("i-2", primary.ports) as other:
                other.has(row(ONE), *BEFORE, *SINCE)
                await other.was_called("message.list", 1)
                await clients.pod.until(lambda: clients.pod.names()[-1] == "segment_rotated")
                assert await said(clients.smooth) == ["Where?", "Here.", "When?", "Now."]
                await other.publish("llm.token", session_id=ONE, token="lo")
                await clients.see("lo")


async def test_a_pod_client_leaves_a_session_that_the_next_primary_does_not_have(tmp_path: Path) -> None:
    async with PandoPrimary.listening("i-1") as primary:
        primary.has(row(ONE), *BEFORE)
        async with gateway(primary.endpoint, tmp_path) as clients:
            primary.close()
            async with PandoPrimary.listening("i-2", primary.ports) as other:
                other.has(row(OTHER, "Another"), *SINCE)
                await clients.pod.until(lambda: "Now." in json.dumps(clients.pod.events[-1]))
                assert clients.pod.names()[-1] == "segment_rotated"
                await other.publish("llm.token", session_id=OTHER, token="lo")
                await clients.pod.until(lambda: clients.pod.joined("text_delta") == "lo")
                await clients.pando.until(lambda: "session.deleted" in clients.pando.topics())
                answer = await clients.smooth.ask({"action": "send_message", "sessionId": ONE, "message": "Hello"})
                assert answer["error"]["code"] == "SESSION_NOT_FOUND"


async def test_a_project_whose_next_primary_has_other_ports_is_found_by_its_lock(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".pando").mkdir(parents=True)

    def lock(primary: PandoPrimary) -> None:
        publications, calls = primary.ports
        record = {
            "instance_id": primary.instance,
            "pid": os.getpid(),
            "pub_port": publications,
            "rpc_port": calls,
            "started_at": "2026-05-09T21:28:20Z",
        }
        (project / ".pando/ipc.lock").write_text(json.dumps(record), "utf-8")

    async with PandoPrimary.listening("i-1") as primary, PandoPrimary.listening("i-2") as other:
        primary.has(row(ONE), *BEFORE)
        other.has(row(ONE), *BEFORE, *SINCE)
        lock(primary)
        async with gateway(f"pando+dir:{project}", tmp_path) as clients:
            await primary.publish("llm.token", session_id=ONE, token="Hel")
            await clients.see("Hel")
            lock(other)
            primary.close()
            await clients.see_a_failure()
            await other.was_called("message.list", 1)
            assert await said(clients.smooth) == ["Where?", "Here.", "When?", "Now."]
