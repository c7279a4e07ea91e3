"""The messages of the gateway to its service manager, received at a socket of the test."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from dragoman.gateway.process.systemd import BEAT_MIN, ServiceNotifier

DEADLINE = 10.0  # seconds for anything that a test waits for


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
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "dragoman", "serve", "--config", str(file)),
        env={**os.environ, "NOTIFY_SOCKET": notified.address, "WATCHDOG_USEC": "50000"},
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert await notified.receive_first() == "READY=1"
        process.send_signal(signal.SIGHUP)
        assert await notified.receive_first() == "RELOADING=1"
        assert await notified.receive_first() == "READY=1"
        process.send_signal(signal.SIGTERM)
        assert await notified.receive_first() == "STOPPING=1"
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
