"""The endpoints of a pando: two ports by number, or those of a project, with its lock and registry entry."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from msgspec import structs

from dragoman.adapters.base import Transport
from dragoman.adapters.stdio import Children
from dragoman.adapters.zeromq.publication import Publication
from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import Endpoint, parse
from dragoman.gateway.transports import pando_project, zeromq
from dragoman.gateway.transports.pando_project import derive_ports
from dragoman.gateway.transports.zeromq import PROJECT, TCP
from dragoman.mappings.dialect import Loss, Parts
from dragoman.mappings.errors import ConfigError
from tests.gateway.listener_callbacks import callbacks
from tests.pando_projects import free_project
from tests.services import spawner_of
from tests.transport_reader import receive

DEADLINE = 20


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    """Create a project, and a registry of the test's own."""
    (tmp_path / "instances").mkdir()
    register = pando_project.Project.register
    monkeypatch.setattr(pando_project.Project, "register", lambda self: register(self, tmp_path / "instances"))
    with free_project(tmp_path) as folder:
        yield parse(f"pando+dir:{folder}")


@pytest.mark.parametrize("way", [TCP, PROJECT])
async def test_calls_and_publications_are_links_of_different_kinds(way: object, project: Endpoint) -> None:
    endpoint = parse("pando+tcp://127.0.0.1:0") if way is TCP else project
    found = TCP if way is TCP else PROJECT
    callers: asyncio.Queue[Transport] = asyncio.Queue()
    published: list[Transport] = []
    assert found.listen is not None
    assert found.dial is not None
    async with asyncio.timeout(DEADLINE):
        listener = await found.listen(endpoint, Limits(), callbacks(callers.put_nowait, published.append))
        assert [type(transport) for transport in published] == [Publication]
        bound = parse(f"pando+{listener.address}")
        assert TCP.places(bound) != TCP.places(endpoint) if way is TCP else bound == endpoint
        ours = await found.dial(bound, Limits(), spawner_of(Children(1)))()
        await ours.send([b"{}"])
        caller = await callers.get()
        (call,) = await receive(caller)
        assert isinstance(call, Parts)
        assert call.parts[-1] == b"{}"
        for transport in (ours, caller, *published):
            await transport.close()
        await listener.close()


async def test_a_project_listener_has_the_ports_of_its_path_and_a_lock_and_an_entry_until_it_closes(
    project: Endpoint, tmp_path: Path
) -> None:
    lock, registry = Path(project.address, ".pando/ipc.lock"), tmp_path / "instances"
    published: list[Transport] = []
    assert PROJECT.listen is not None
    async with asyncio.timeout(DEADLINE):
        listener = await PROJECT.listen(project, Limits(), callbacks(publish=published.append))
        (entry,) = [json.loads(path.read_text("utf-8")) for path in registry.iterdir()]
        for told in (json.loads(lock.read_text("utf-8")), entry):
            assert (told["pid"], told["instance_id"]) == (os.getpid(), "us")
            assert (told["pub_port"], told["rpc_port"]) == derive_ports(project.address)
        await published[0].close()
        await listener.close()
    assert not lock.exists()
    assert list(registry.iterdir()) == []


async def test_a_second_primary_is_refused_with_the_owner_of_the_project(project: Endpoint) -> None:
    published: list[Transport] = []
    assert PROJECT.listen is not None
    async with asyncio.timeout(DEADLINE):
        listener = await PROJECT.listen(project, Limits(), callbacks(publish=published.append))
        with pytest.raises(OSError, match=f"process {os.getpid()} is the primary"):
            await PROJECT.listen(project, Limits(), callbacks())
        await published[0].close()
        await listener.close()


async def test_a_port_in_use_releases_the_lock(project: Endpoint) -> None:
    first, _ = derive_ports(project.address)
    taken: list[Transport] = []
    assert TCP.listen is not None
    assert PROJECT.listen is not None
    async with asyncio.timeout(DEADLINE):
        other = await TCP.listen(parse(f"pando+tcp://127.0.0.1:{first}"), Limits(), callbacks(publish=taken.append))
        with pytest.raises(OSError, match="in use"):
            await PROJECT.listen(project, Limits(), callbacks())
        await taken[0].close()
        await other.close()
    assert not Path(project.address, ".pando/ipc.lock").exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("pando+tcp://127.0.0.1", "write host and port"),
        ("pando+tcp://127.0.0.1:1/path", "write host and port"),
        ("pando+tcp://127.0.0.1:1?rpc=x", "each port must be a number"),
        ("pando+tcp://127.0.0.1:1?rpc=70000", "0 to 65535"),
        ("pando+tcp://127.0.0.1:65535", "no port follows 65535"),
    ],
)
def test_an_invalid_address_is_refused_with_a_valid_form(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        TCP.check(parse(text))


def test_a_listener_needs_the_directory_of_its_project(tmp_path: Path) -> None:
    PROJECT.check_place(parse(f"pando+dir:{tmp_path}"))
    with pytest.raises(ConfigError, match=f"{tmp_path}/none: the project's directory does not exist"):
        PROJECT.check_place(parse(f"pando+dir:{tmp_path}/none"))


def test_a_project_must_be_an_absolute_path() -> None:
    with pytest.raises(ConfigError, match="absolute path"):
        PROJECT.check(parse("pando+dir:project"))


def test_a_project_and_its_ports_are_one_address(project: Endpoint) -> None:
    first, _ = derive_ports(project.address)
    assert PROJECT.places(project) == TCP.places(parse(f"pando+tcp://127.0.0.1:{first}"))
    assert TCP.places(parse("pando+tcp://127.0.0.1:0")) == ()


def test_both_ports_of_a_pando_are_taken() -> None:
    assert TCP.places(parse("pando+tcp://127.0.0.1:5")) == (("tcp", "127.0.0.1", 5), ("tcp", "127.0.0.1", 6))
    assert TCP.places(parse("pando+tcp://127.0.0.1:5?rpc=9")) == (("tcp", "127.0.0.1", 5), ("tcp", "127.0.0.1", 9))


@pytest.mark.parametrize("ports", ["0", "5?rpc=0"])
def test_the_ports_of_a_backend_cannot_be_left_to_the_system(ports: str) -> None:
    with pytest.raises(ConfigError, match="write the ports of the backend"):
        TCP.check_upstream(parse(f"pando+tcp://127.0.0.1:{ports}"))


async def test_a_connection_with_one_of_the_last_descriptors_is_shut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zeromq, "first_reserved", lambda: 0)
    losses: list[Loss] = []
    published: list[Transport] = []
    assert TCP.listen is not None
    heard = structs.replace(callbacks(publish=published.append), lost=losses.append)
    async with asyncio.timeout(DEADLINE):
        listener = await TCP.listen(parse("pando+tcp://127.0.0.1:0"), Limits(), heard)
        url = urlsplit(listener.address)
        reader, writer = await asyncio.open_connection(url.hostname, url.port)
        await reader.read()  # until the end
        writer.close()
        assert [loss.kind for loss in losses] == ["connection"]
        for transport in published:
            await transport.close()
        await listener.close()
