"""A project whose primary is dragoman, as users run it: found by its lock and its registry entry, owned by one
process.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.gateway.transports.pando_project import INSTANCES, Lock, derive_ports
from tests.forked_program import dragoman
from tests.pairs.pando_client import PandoClient
from tests.pando_projects import free_project
from tests.peers.processes import running


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    with free_project(tmp_path) as folder:
        yield folder


def lock_of(project: Path) -> Lock:
    return Lock(**json.loads((project / ".pando/ipc.lock").read_text("utf-8")))


def address(project: Path) -> str:
    """Return the address that clients find in the lock."""
    lock = lock_of(project)
    return f"tcp://127.0.0.1:{lock.pub_port}?rpc={lock.rpc_port}"


async def test_a_viewer_finds_the_gateway_by_its_lock_and_no_file_is_left_when_it_stops(project: Path) -> None:
    async with running("demo-backend", f"pando+dir:{project}") as backend:
        lock = lock_of(project)
        assert (lock.pid, lock.pub_port, lock.rpc_port) == (backend.process.pid, *derive_ports(str(project)))
        entry = INSTANCES / f"{lock.instance_id}.json"
        assert json.loads(entry.read_text("utf-8"))["pid"] == backend.process.pid
        async with PandoClient.connected(address(project)) as viewer:
            assert (await viewer.call("instance.ping"))["instance_id"] == lock.instance_id
    assert not (project / ".pando/ipc.lock").exists()
    assert not entry.exists()


def registered() -> Iterator[dict[str, Any]]:
    """Yield every entry of the registry, which other processes of this machine may change meanwhile."""
    for path in INSTANCES.glob("*.json"):
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
            yield json.loads(path.read_text("utf-8"))


def bridge(project: Path) -> tuple[str, ...]:
    """Run a gateway as the primary of a project; it starts although its backend does not exist."""
    return "bridge", f"pando+dir:{project}", f"pod+unix:{project}/nobody"


async def refused(*arguments: str) -> str:
    """Return the output of `dragoman ARGUMENTS`, which must end with 1, as the address may be free later."""
    done = await asyncio.to_thread(dragoman, *arguments)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


async def test_a_second_process_is_refused_with_the_first_ones_pid(project: Path) -> None:
    async with running(*bridge(project)) as first:
        said = await refused(*bridge(project))
        assert f"process {first.process.pid} is the primary of this project" in said
        assert lock_of(project).pid == first.process.pid, "it has left the lock alone"
        assert [entry["pid"] for entry in registered() if entry["path"] == str(project)] == [first.process.pid]


@pytest.mark.parametrize("which", [0, 1])
async def test_a_port_in_use_is_reported_and_the_lock_released(project: Path, which: int) -> None:
    port = derive_ports(str(project))[which]
    with socket.create_server(("127.0.0.1", port)):
        assert f"tcp://127.0.0.1:{port}" in await refused(*bridge(project))
    assert not (project / ".pando/ipc.lock").exists()


async def test_a_lock_of_another_process_is_respected_although_it_is_half_written(project: Path) -> None:
    """A process that loses the race may see an empty or incomplete file (docs/dialects/pando.md, section 1.2)."""
    lock = project / ".pando/ipc.lock"
    lock.parent.mkdir()
    lock.write_text('{"instance_id": "half', "utf-8")
    with lock.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert "another process is the primary of this project" in await refused(*bridge(project))
        assert lock.read_text("utf-8") == '{"instance_id": "half'
    async with running(*bridge(project)) as next_one:  # the file alone means nothing
        assert lock_of(project).pid == next_one.process.pid


async def test_a_deleted_project_is_still_served_and_cleaned_up(project: Path) -> None:
    async with running("demo-backend", f"pando+dir:{project}"):
        url = address(project)
        shutil.rmtree(project)
        async with PandoClient.connected(url) as viewer:
            await viewer.turn("retry")
    assert not project.exists()


async def test_the_next_gateway_takes_over_from_a_killed_one_and_clients_find_it(project: Path) -> None:
    async with running("demo-backend", f"pando+dir:{project}") as killed:
        before = lock_of(project)
        async with PandoClient.connected(address(project)) as viewer:
            await viewer.turn("retry")
        await killed.kill()
    assert lock_of(project) == before, "the file stays, and means nothing"
    async with running("demo-backend", f"pando+dir:{project}") as next_one:
        assert lock_of(project).pid == next_one.process.pid
        assert lock_of(project).instance_id != before.instance_id
        async with PandoClient.connected(address(project)) as viewer:
            await viewer.turn("retry")
            assert viewer.shown[-1] == ("assistant", "The second try worked.")
    (INSTANCES / f"{before.instance_id}.json").unlink()
