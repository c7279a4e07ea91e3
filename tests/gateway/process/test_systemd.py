"""The messages of the gateway to its service manager, and the sockets that it takes from it by name."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from uuid import uuid4

import aiohttp
import pytest

from dragoman.gateway import registry
from dragoman.gateway.endpoint import parse
from dragoman.gateway.process.systemd import BEAT_MIN, InheritedSockets, ServiceNotifier
from dragoman.mappings.errors import ConfigError
from tests.awaited import spawned

DEADLINE = 20.0  # seconds for anything that a test waits for


class Following:
    """An app that is followed: its events only."""

    def __init__(self) -> None:
        self.ready, self.stop = asyncio.Event(), asyncio.Event()


class NotifySocket:
    """The socket of a service manager."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._bound.bind("\0" + address[1:] if address.startswith("@") else address)
        self._bound.settimeout(DEADLINE)

    async def receive(self) -> list[str]:
        """Return the assignments of the next message."""
        return (await asyncio.to_thread(self._bound.recv, 4096)).decode().split("\n")

    async def receive_first(self) -> str:
        """Return the first assignment of the next message that is not for the watchdog."""
        while (message := await self.receive())[0] == "WATCHDOG=1":
            pass
        return message[0]

    def discard(self) -> None:
        """Forget the messages that wait."""
        self._bound.setblocking(False)
        try:
            while True:
                self._bound.recv(4096)
        except BlockingIOError:
            self._bound.settimeout(DEADLINE)

    def has_message(self) -> bool:
        """Return True if a message waits."""
        self._bound.setblocking(False)
        try:
            return bool(self._bound.recv(4096, socket.MSG_PEEK))
        except BlockingIOError:
            return False
        finally:
            self._bound.settimeout(DEADLINE)

    def close(self) -> None:
        self._bound.close()


@pytest.fixture
def notified(tmp_path: Path) -> Iterator[NotifySocket]:
    opened = NotifySocket(str(tmp_path / "notify"))
    yield opened
    opened.close()


@asynccontextmanager
async def following(environment: dict[str, str], app: Following) -> AsyncIterator[ServiceNotifier]:
    manager = ServiceNotifier(lambda: "serving\nhere", environment)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(manager.follow(app.ready, app.stop))
        yield manager
        task.cancel()


async def test_systemd_is_notified_of_ready_when_all_listeners_accept_and_of_the_stop(
    notified: NotifySocket,
) -> None:
    app = Following()
    async with following({"NOTIFY_SOCKET": notified.address}, app):
        await asyncio.sleep(0)
        assert not notified.has_message()
        app.ready.set()
        assert await notified.receive() == ["READY=1", "STATUS=serving here"]
        app.stop.set()
        assert (await notified.receive())[0] == "STOPPING=1"


async def test_systemd_is_notified_at_a_socket_without_a_file() -> None:
    notified = NotifySocket(f"@dragoman-test-{uuid4()}")
    with ServiceNotifier(lambda: "serving", {"NOTIFY_SOCKET": notified.address}).reloading():
        assert await notified.receive_first() == "RELOADING=1"
    notified.close()


async def test_systemd_is_notified_of_a_reload_with_its_time_and_then_of_ready(notified: NotifySocket) -> None:
    manager = ServiceNotifier(lambda: "serving", {"NOTIFY_SOCKET": notified.address})
    before = time.monotonic_ns() // 1000
    with manager.reloading():
        kind, at, _status = await notified.receive()
    assert kind == "RELOADING=1"
    name, _, microseconds = at.partition("=")
    assert name == "MONOTONIC_USEC"
    assert before <= int(microseconds) <= time.monotonic_ns() // 1000
    assert await notified.receive() == ["READY=1", "STATUS=serving"]


async def test_systemd_is_not_told_that_a_gateway_is_ready_whose_reload_the_stop_interrupts(
    notified: NotifySocket,
) -> None:
    manager = ServiceNotifier(lambda: "serving", {"NOTIFY_SOCKET": notified.address})
    with contextlib.suppress(asyncio.CancelledError), manager.reloading():
        raise asyncio.CancelledError
    assert await notified.receive_first() == "RELOADING=1"
    assert not notified.has_message()


async def test_the_systemd_watchdog_gets_notices_while_the_event_loop_runs(
    notified: NotifySocket,
) -> None:
    app = Following()
    app.ready.set()
    environment = {"NOTIFY_SOCKET": notified.address, "WATCHDOG_USEC": "20000", "WATCHDOG_PID": str(os.getpid())}
    async with following(environment, app):
        assert (await notified.receive())[0] == "READY=1"
        assert [await notified.receive() for _ in range(2)] == [["WATCHDOG=1"]] * 2
        app.stop.set()
        while (await notified.receive())[0] != "STOPPING=1":
            pass
        assert [await notified.receive() for _ in range(2)] == [["WATCHDOG=1"]] * 2


async def test_the_systemd_watchdog_gets_no_notice_while_the_event_loop_is_stuck(notified: NotifySocket) -> None:
    app = Following()
    app.ready.set()
    async with following({"NOTIFY_SOCKET": notified.address, "WATCHDOG_USEC": "2000"}, app):
        await notified.receive()
        notified.discard()
        time.sleep(0.02)  # noqa: ASYNC251  # the loop is stuck: ten beats are due
        assert not notified.has_message()
        assert await notified.receive() == ["WATCHDOG=1"]


def test_the_systemd_watchdog_of_another_process_gets_no_notice() -> None:
    assert ServiceNotifier(str, {"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"})._beat is None


@pytest.mark.parametrize(("interval", "beat"), [("1", BEAT_MIN), ("0", None), ("9" * 5000, None), ("2000000", 1.0)])
def test_a_watchdog_beats_at_a_bounded_rate(interval: str, beat: float | None) -> None:
    assert ServiceNotifier(str, {"WATCHDOG_USEC": interval})._beat == beat


def test_the_variables_of_the_systemd_are_not_left_for_children() -> None:
    environment = {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1", "PATH": "/bin"}
    ServiceNotifier(str, environment)
    assert environment == {"PATH": "/bin"}


@pytest.mark.parametrize("address", ["", "vsock:2:1", "relative"])
def test_the_service_notifier_is_unused_without_a_known_address(address: str) -> None:
    assert not ServiceNotifier(str, {"NOTIFY_SOCKET": address}).is_used


def test_a_missing_systemd_socket_does_not_stop_the_gateway(tmp_path: Path) -> None:
    with ServiceNotifier(str, {"NOTIFY_SOCKET": str(tmp_path / "gone")}).reloading():
        pass


async def test_serve_notifies_systemd_of_ready_reloading_and_stopping(notified: NotifySocket, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'[[route]]\nname = "a"\nlisten = ["pod+unix:{tmp_path}/a"]\nupstream = "pod+unix:{tmp_path}/b"\n')
    async with spawned(
        *(sys.executable, "-m", "dragoman", "serve", "--config", str(file)),
        env={**os.environ, "NOTIFY_SOCKET": notified.address, "WATCHDOG_USEC": "50000"},
        stderr=asyncio.subprocess.DEVNULL,
    ) as process:
        assert await notified.receive_first() == "READY=1"
        process.send_signal(signal.SIGHUP)
        assert await notified.receive_first() == "RELOADING=1"
        assert await notified.receive_first() == "READY=1"
        process.send_signal(signal.SIGTERM)
        assert await notified.receive_first() == "STOPPING=1"
        assert await process.wait() == 0


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
    async with spawned(
        *(sys.executable, "-c", ACTIVATE, names, json.dumps(numbers)),
        *(sys.executable, "-m", "dragoman", *arguments),
        stderr=asyncio.subprocess.PIPE,
        pass_fds=numbers,
    ) as process:
        assert process.stderr is not None
        async with asyncio.timeout(DEADLINE):
            for _ in sockets:
                while not (line := await process.stderr.readline()).startswith(b"listening "):
                    assert line, "it ended before it listened"
            yield
            process.send_signal(signal.SIGTERM)
            await process.stderr.read()
            assert await process.wait() == 0


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
