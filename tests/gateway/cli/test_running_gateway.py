"""`dragoman status` against a gateway of its own process, while that reloads, drains, is stuck and is dead."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pytest_aiohttp import AiohttpRawServer

from tests.conformance.fake_smooth import FakeSmooth
from tests.gateway.cli.program import Run
from tests.gateway.ops.running import answering
from tests.pairs.gateway import DEADLINE, SmoothClient
from tests.peers.processes import Process, running

OLD, NEW = "token-of-the-ops-port-1", "token-of-the-ops-port-2"


def write_config(folder: Path, upstream: str, token: str = OLD, *routes: str) -> Path:
    """Write a configuration with an ops port at a socket, and a route for each name beside `main`."""
    file = folder / "config.toml"
    text = "".join(
        f'[[route]]\nname = "{name}"\nlisten = ["smooth+ws://127.0.0.1:0/ws"]\nupstream = "{upstream}"\n'
        for name in ("main", *routes)
    )
    file.write_text(f'{text}[ops]\nlisten = "unix:{folder}/ops.sock"\ntokens = ["{token}"]\n')
    file.chmod(0o600)
    return file


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[tuple[FakeSmooth, Process, Path]]:
    async with asyncio.timeout(2 * DEADLINE), FakeSmooth.serving() as backend:
        file = write_config(folder, backend.url)
        async with running("serve", "--config", str(file)) as process:
            yield backend, process, file


async def reload(process: Process, outcome: str) -> None:
    """Send HUP to a gateway, and wait until it has logged this outcome."""
    mark = len(process.log)
    process.process.send_signal(signal.SIGHUP)
    await process.logs(outcome, mark)


async def test_a_reload_changes_the_tokens_of_the_ops_port_and_the_routes_that_it_shows(
    tmp_path: Path, dragoman: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path) as (backend, process, file):
        asked = ("status", "--ops", f"unix:{tmp_path}/ops.sock", "--json")
        monkeypatch.setenv("DRAGOMAN_OPS_TOKEN", OLD)
        code, out, _ = await asyncio.to_thread(dragoman, *asked)
        assert (code, [route["name"] for route in json.loads(out)["routes"]]) == (0, ["main"])
        write_config(tmp_path, backend.url, NEW, "second")
        await reload(process, "configuration reloaded")
        code, _, err = await asyncio.to_thread(dragoman, *asked)
        assert (code, "does not accept this token: has the gateway reloaded" in err) == (2, True)
        code, out, _ = await asyncio.to_thread(dragoman, "status", "--config", str(file), "--json")
        assert (code, [route["name"] for route in json.loads(out)["routes"]]) == (0, ["main", "second"])


async def test_a_refused_reload_leaves_the_ops_port_as_it_was(
    tmp_path: Path, dragoman: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path) as (_, process, file):
        file.write_text("[[route]]\nname = 5\n")
        await reload(process, "configuration refused, nothing changed")
        monkeypatch.setenv("DRAGOMAN_OPS_TOKEN", OLD)
        code, out, _ = await asyncio.to_thread(dragoman, "status", "--ops", f"unix:{tmp_path}/ops.sock")
        assert (code, out.splitlines()[0]) == (0, "ready, 0 clients")


async def test_a_draining_gateway_says_so_and_a_dead_one_does_not_answer(tmp_path: Path, dragoman: Run) -> None:
    async with served(tmp_path) as (backend, process, file):
        asked = ("status", "--config", str(file))
        async with SmoothClient.connected(process.url) as client:
            await client.say("hold")
            await backend.asked()
            process.process.send_signal(signal.SIGTERM)
            await process.logs("waiting for open turns to finish")
            code, out, _ = await asyncio.to_thread(dragoman, *asked)
            why = "  gateway: the gateway stops: it accepts no client, and open turns finish"
            assert (code, out.splitlines()[:2]) == (1, ["draining, 1 client", why])
            await process.kill()
        code, _, err = await asyncio.to_thread(dragoman, *asked)
        assert (code, "no gateway answers at unix:" in err) == (2, True)


async def test_status_reports_a_stopped_process_as_one_that_gives_no_answer(
    tmp_path: Path, dragoman: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.gateway.ops.client.TIMEOUT", 0.1)
    with socket.socket(socket.AF_UNIX) as listening:  # the kernel accepts for a process that does nothing
        listening.bind(f"{tmp_path}/ops.sock")
        listening.listen()
        code, _, err = await asyncio.to_thread(dragoman, "status", "--ops", f"unix:{tmp_path}/ops.sock")
    assert (code, "accepts connections but gave no answer within 0.1 s" in err) == (2, True)


async def test_status_repeats_the_ops_ports_text_about_a_stuck_gateway(
    dragoman: Run, aiohttp_raw_server: AiohttpRawServer
) -> None:
    body = {
        "title": "Service Unavailable",
        "status": 503,
        "detail": "the event loop of the gateway does not answer",
    }
    url = await answering(aiohttp_raw_server, json.dumps(body), 503, "application/problem+json")
    code, _, err = await asyncio.to_thread(dragoman, "status", "--ops", url)
    assert (code, err) == (1, "error: the event loop of the gateway does not answer\n")
