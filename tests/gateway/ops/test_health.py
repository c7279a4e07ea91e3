"""The readiness of a gateway, and the causes that it tells."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from dragoman.adapters.meter import Meter
from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config, Limits, Recording, Route
from dragoman.gateway.endpoint import parse
from dragoman.gateway.ops import health
from dragoman.gateway.overload.descriptors import RESERVE
from tests.conformance.fake_pod import FakePod
from tests.gateway.ops.running import LOCAL, OpsClient, operated
from tests.pairs.gateway import DEADLINE, SmoothClient, socket_path


def causes(body: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["cause"] for check in body["checks"] if not check["ready"]}


async def test_a_gateway_without_room_for_clients_is_not_ready() -> None:
    async with operated() as port:
        meter = Meter()
        port.app.memory.watch(meter, lambda: None)
        meter.add(int(port.app.memory.limit * 0.9))
        status, body = await port.ask("/readyz")
        assert (status, body["status"]) == (503, "not ready")
        assert "the gateway is out of memory" in causes(body)["memory"]


async def test_a_gateway_that_refuses_clients_for_lack_of_descriptors_is_not_ready() -> None:
    async with operated() as port:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        last = max(map(int, os.listdir("/proc/self/fd")))
        with contextlib.ExitStack() as holes:  # free numbers between those that are in use
            while (lowest := os.dup(0)) < last:
                holes.callback(os.close, lowest)
            os.close(lowest)
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + RESERVE - 1, hard))
            try:
                status, body = await port.ask("/readyz")
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert (status, body["status"]) == (503, "not ready")
        assert "too many open files in the gateway" in causes(body)["descriptors"]


async def test_a_gateway_is_not_ready_while_the_file_of_a_socket_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(App, "unreachable_listeners", ["pod+unix:/run/x/sock"])
    async with operated() as port:
        status, body = await port.ask("/readyz")
        assert (status, body["status"]) == (503, "not ready")
        assert "is gone or replaced: pod+unix:/run/x/sock" in causes(body)["gateway"]


async def test_a_gateway_that_stops_is_draining() -> None:
    async with operated() as port:
        port.app.stop.set()
        status, body = await port.ask("/readyz")
        assert (status, body["status"]) == (503, "draining")
        assert "the gateway stops" in causes(body)["gateway"]


@pytest.fixture(autouse=True)
def unremembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the caching of probes, so that each request probes."""
    monkeypatch.setattr(health, "PROBE_EVERY", 0.0)


async def becomes(port: OpsClient, status: int) -> dict[str, Any]:
    """Ask until the answer has this status; return its body."""
    async with asyncio.timeout(DEADLINE):
        while True:
            found, body = await port.ask("/readyz?verbose")
            if found == status:
                return dict(body)


async def test_a_route_whose_backend_does_not_listen_is_not_ready_until_it_does(tmp_path: Path) -> None:
    path = socket_path(tmp_path)
    async with operated(f"pod+unix:{path}") as port:
        body = await becomes(port, 503)
        why = "nothing listens there; start the backend, or correct the address"
        assert causes(body) == {"route test": f"pod+unix:{path} cannot be reached: {why}"}
        async with FakePod.serving(path) as pod:
            assert {"name": "route test", "ready": True} in (await becomes(port, 200))["checks"]
            assert pod.connections == 0, "a probe looks, and does not connect"


async def test_a_route_is_not_ready_from_the_loss_of_its_backend_until_the_backend_is_found_again(
    tmp_path: Path,
) -> None:
    path = socket_path(tmp_path)
    async with operated(f"pod+unix:{path}") as port:
        url = port.listening[0].partition("+")[2]
        async with FakePod.serving(path) as pod, SmoothClient.connected(url) as client:
            await client.say("hello")
            await becomes(port, 200)
            assert port.app.upstreams.statuses["test"].heard == 1
            path.unlink()
            pod.hang_up()
            assert causes(await becomes(port, 503))["route test"]
            async with FakePod.serving(path):
                await becomes(port, 200)


async def test_a_route_whose_child_keeps_dying_is_not_ready() -> None:
    child = f"codewhale+stdio:{sys.executable} -c 'import sys; sys.exit(7)'"
    async with operated(child, limits=Limits(drain_deadline=0.5, accept_deadline=2.0)) as port:
        await becomes(port, 200)
        url = port.listening[0].partition("+")[2]
        with pytest.raises(ExceptionGroup):  # the client is refused
            async with SmoothClient.connected(url):
                pass
        assert "exited with status 7" in causes(await becomes(port, 503))["route test"]


async def test_a_route_whose_program_is_missing_is_not_ready() -> None:
    async with operated("codewhale+stdio:no-such-program-anywhere --stdio") as port:
        cause = causes(await becomes(port, 503))["route test"]
        assert cause.startswith("codewhale+stdio:no-such-program-anywhere ...: no such program in PATH")


async def test_a_gateway_whose_recordings_fill_the_disk_is_not_ready_and_that_is_found_without_a_new_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", ["total", "used", "free"])
    route = Route(name="test", listen=(), upstream=parse("pod+unix:/nowhere/sock"))
    app = App(Config(routes=(route,), ops=LOCAL, recording=Recording(path=f"{tmp_path}/")))
    async with operated(app=app) as port:
        with monkeypatch.context() as limited:
            limited.setattr("threading.Thread.start", Mock(side_effect=RuntimeError("can't start new thread")))
            assert "recording" not in causes(await becomes(port, 503))
        monkeypatch.setattr("shutil.disk_usage", lambda _path: usage(1 << 30, 1 << 30, 4096))
        assert (
            causes(await becomes(port, 503))["recording"]
            == f"{tmp_path}/: only 4096 bytes are free, and 1048576 are needed"
        )


async def test_a_gateway_that_records_into_one_file_is_ready_once_the_file_exists(tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl"
    route = Route(name="test", listen=(), upstream=parse("pod+unix:/nowhere/sock"))
    app = App(Config(routes=(route,), ops=LOCAL, recording=Recording(path=str(file))))
    async with operated(app=app) as port:
        file.touch()
        assert "recording" not in causes(await becomes(port, 503))
