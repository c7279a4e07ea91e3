"""A project whose primary we are, as users run it: found by its lock and its registry entry, and by one process."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from gateway.transports.pando_project import INSTANCES, Lock, ports
from tests.pairs.pando_client import PandoClient
from tests.peers.processes import running


def lock_of(project: Path) -> Lock:
    return Lock(**json.loads((project / ".pando/ipc.lock").read_text("utf-8")))


def address(project: Path) -> str:
    """Where a client looks: the ports that the lock tells."""
    lock = lock_of(project)
    return f"tcp://127.0.0.1:{lock.pub_port}?rpc={lock.rpc_port}"


async def test_a_viewer_finds_us_by_the_lock_and_nothing_is_left_when_we_stop(tmp_path: Path) -> None:
    async with running("demo-backend", f"pando+dir:{tmp_path}") as backend:
        lock = lock_of(tmp_path)
        assert (lock.pid, lock.pub_port, lock.rpc_port) == (backend.process.pid, *ports(str(tmp_path)))
        entry = INSTANCES / f"{lock.instance_id}.json"
        assert json.loads(entry.read_text("utf-8"))["pid"] == backend.process.pid
        async with PandoClient.connected(address(tmp_path)) as viewer:
            assert (await viewer.call("instance.ping"))["instance_id"] == lock.instance_id
    assert not (tmp_path / ".pando/ipc.lock").exists()
    assert not entry.exists()


async def test_a_second_process_is_refused_with_the_first_ones_pid(tmp_path: Path) -> None:
    async with running("demo-backend", f"pando+dir:{tmp_path}") as first:
        second = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "gateway", "demo-backend", f"pando+dir:{tmp_path}", stderr=asyncio.subprocess.PIPE
        )
        _, said = await second.communicate()
        assert second.returncode == 1
        assert f"process {first.process.pid} is the primary of this project" in said.decode()
        assert "Traceback" not in said.decode()
        assert lock_of(tmp_path).pid == first.process.pid, "it has left the lock alone"


async def test_a_gateway_that_was_killed_is_followed_by_the_next_and_its_clients_find_that_one(tmp_path: Path) -> None:
    async with running("demo-backend", f"pando+dir:{tmp_path}") as killed:
        before = lock_of(tmp_path)
        async with PandoClient.connected(address(tmp_path)) as viewer:
            await viewer.say("retry")
            await viewer.until(lambda: "llm.end" in viewer.topics())
        await killed.kill()
    assert lock_of(tmp_path) == before, "the file stays, and means nothing"
    async with running("demo-backend", f"pando+dir:{tmp_path}") as next_one:
        assert lock_of(tmp_path).pid == next_one.process.pid
        assert lock_of(tmp_path).instance_id != before.instance_id
        async with PandoClient.connected(address(tmp_path)) as viewer:
            await viewer.say("retry")
            await viewer.until(lambda: "llm.end" in viewer.topics())
            assert viewer.shown[-1] == ("assistant", "The second try worked.")
    (INSTANCES / f"{before.instance_id}.json").unlink()
