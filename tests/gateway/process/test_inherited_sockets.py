"""Socket activation: listeners that take the sockets of a service manager by name."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import aiohttp
import pytest

from dragoman.gateway import registry
from dragoman.gateway.endpoint import parse
from dragoman.gateway.process.inherited_sockets import InheritedSockets
from dragoman.mappings.errors import ConfigError

DEADLINE = 20.0  # seconds for anything that a test waits for

ACTIVATE = """
import json, os, sys
names, numbers, *command = sys.argv[1:]
for place, number in enumerate(json.loads(numbers), 3):
    if number != place:
        os.dup2(number, place)
    os.set_inheritable(place, True)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(json.loads(numbers))), "LISTEN_FDNAMES": names}
os.execv(command[0], command)
"""
"""Starts a program as a service manager does, with listening sockets at the descriptors 3 and further."""


def listening_port(host: str = "127.0.0.1") -> socket.socket:
    return socket.create_server((host, 0))


def listening_path(path: Path) -> socket.socket:
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(str(path))
    bound.listen()
    return bound


@contextmanager
def adopted(*given: socket.socket, names: str) -> Iterator[InheritedSockets]:
    """Yield sockets as they are adopted from the environment, and close those that were not taken.

    Their descriptors are consecutive duplicates.
    """
    first = 200
    for index, one in enumerate(given):
        os.dup2(one.fileno(), first + index)
        one.close()
    sockets = InheritedSockets()
    environment = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(given)), "LISTEN_FDNAMES": names}
    sockets.adopt(environment, first)
    assert environment == {}
    yield sockets
    for group in sockets._by_name.values():
        for one in group:
            one.close()


async def read_snapshot(reader: asyncio.StreamReader) -> None:
    """Read the greeting of a pod up to its snapshot."""
    while b'"snapshot"' not in (line := await reader.readline()):
        assert line


def test_the_socket_of_a_name_is_taken_at_its_address_and_children_do_not_inherit_it(tmp_path: Path) -> None:
    web, pod = listening_port(), listening_path(tmp_path / "sock")
    port = web.getsockname()[1]
    with adopted(web, pod, names="web:pod") as sockets:
        assert sockets.untaken == ["pod", "web"]
        with (
            sockets.take_port("web", "127.0.0.1", port) as one,
            sockets.take_path("pod", f"{tmp_path}/./sock") as other,
        ):
            assert one.getsockname() == ("127.0.0.1", port)
            assert [each.get_inheritable() for each in (one, other)] == [False, False]
        assert sockets.untaken == []


def test_the_socket_at_the_address_is_taken_if_several_have_one_name(tmp_path: Path) -> None:
    pod, web = listening_path(tmp_path / "sock"), listening_port()
    port = web.getsockname()[1]
    with (
        adopted(pod, web, names="dragoman.socket:dragoman.socket") as sockets,
        sockets.take_port("dragoman.socket", "localhost", port) as taken,
    ):
        assert taken.getsockname()[1] == port


@pytest.mark.parametrize(("host", "wanted"), [("0.0.0.0", "127.0.0.1"), ("127.0.0.1", "0.0.0.0"), ("0.0.0.0", "name")])
def test_a_socket_that_more_or_fewer_machines_can_reach_than_its_endpoint_says_is_refused(
    host: str, wanted: str
) -> None:
    web = listening_port(host)
    port = web.getsockname()[1]
    words = f"not at {wanted}:{port}, but at {host}:{port}"
    with adopted(web, names="web") as sockets, pytest.raises(ConfigError, match=words):
        sockets.take_port("web", wanted, port)


def test_a_socket_of_another_port_is_refused() -> None:
    words = r"not at 127\.0\.0\.1:1,"
    with adopted(listening_port(), names="web") as sockets, pytest.raises(ConfigError, match=words):
        sockets.take_port("web", "127.0.0.1", 1)


def test_an_unknown_name_is_refused_with_the_names_that_there_are(tmp_path: Path) -> None:
    one = listening_path(tmp_path / "sock")
    with adopted(one, names="pod") as sockets, pytest.raises(ConfigError, match=r"fd=web: .*it has pod"):
        sockets.take_port("web", "127.0.0.1", 8787)


def test_sockets_for_another_process_are_left_alone() -> None:
    sockets = InheritedSockets()
    sockets.adopt({"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "web"})
    assert sockets.untaken == []


def test_the_mode_of_an_inherited_socket_cannot_be_set_by_the_endpoint() -> None:
    with pytest.raises(ConfigError, match=r"\.socket unit"):
        registry.check_listen(parse("pod+unix:/run/x?fd=pod&mode=0660"))


def test_an_inherited_socket_does_not_count_as_reachable_by_its_owner_alone() -> None:
    assert not parse("pod+unix:/run/x?fd=pod").is_owner_only


@asynccontextmanager
async def activated(*arguments: str, names: str, sockets: list[socket.socket]) -> AsyncIterator[None]:
    """Run dragoman with these sockets, from when it listens until SIGTERM has ended it."""
    numbers = [one.fileno() for one in sockets]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", ACTIVATE, names, json.dumps(numbers)),
        *(sys.executable, "-m", "dragoman", *arguments),
        stderr=asyncio.subprocess.PIPE,
        pass_fds=numbers,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(DEADLINE):
            for _ in sockets:
                while not (line := await process.stderr.readline()).startswith(b"listening "):
                    assert line, "it ended before it listened"
            yield
            process.send_signal(signal.SIGTERM)
            await process.stderr.read()
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_gateway_serves_inherited_sockets_which_stay_when_it_ends(tmp_path: Path) -> None:
    web, pod = listening_port(), listening_path(tmp_path / "front")
    port = web.getsockname()[1]
    listen = (f"smooth+ws://127.0.0.1:{port}/ws?fd=web", f"pod+unix:{tmp_path}/front?fd=pod")
    bridge = ("bridge", *listen, f"pod+unix:{tmp_path}/back")
    with web, pod:
        async with activated(*bridge, names="web:pod", sockets=[web, pod]):
            async with aiohttp.ClientSession() as http, http.ws_connect(f"http://127.0.0.1:{port}/ws") as client:
                await client.send_json({"action": "ping", "requestId": "1"})
                assert (await client.receive_json())["type"] == "pong"
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "front"))
            await read_snapshot(reader)
            writer.close()
        assert (tmp_path / "front").is_socket()
        waiting, late = await asyncio.open_unix_connection(str(tmp_path / "front"))  # in the queue of the socket
        async with activated(*bridge, names="web:pod", sockets=[web, pod]), asyncio.timeout(DEADLINE):
            await read_snapshot(waiting)
            late.close()


async def test_a_gateway_without_the_socket_that_its_endpoint_names_says_so_and_exits_with_2(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dragoman", "bridge", "smooth+ws://127.0.0.1:8787/ws?fd=web", f"pod+unix:{tmp_path}/b"),
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await process.communicate()
    assert process.returncode == 2
    assert b"started without a socket of this name" in errors
