"""The limit of open files: raised at the start, and never exhausted by clients."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from dragoman.gateway.overload.descriptors import RESERVE, TABLE, descriptor_shortage, first_reserved, raise_limit
from tests.awaited import DEADLINE
from tests.forked_program import NOTHING, Fork

CLIENTS = 20
ROOM = 5  # of them have a descriptor
NO_DESCRIPTOR = "too many open files in the gateway; its operator can raise the limit (ulimit -n)"

T = TypeVar("T")


@pytest.fixture(autouse=True)
def _limit_is_restored() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def set_soft(limit: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def test_the_soft_limit_is_raised() -> None:
    set_soft(256)
    raise_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 256


@pytest.mark.parametrize(
    "program", [["bridge", "pod+unix:b", "smooth+ws://127.0.0.1:0/ws"], ["send", "pod+unix:b", "x"]]
)
def test_a_limit_below_the_reserve_is_reported_in_one_line(program: list[str]) -> None:
    limited = ["sh", "-c", f'ulimit -n {RESERVE - 1}; exec "$@"', "sh", sys.executable, "-m", "dragoman", *program]
    ended = subprocess.run(limited, check=False, capture_output=True, timeout=DEADLINE)  # our own program
    assert ended.returncode == 2
    assert (
        ended.stderr.decode()
        == "error: this process may open 31 files only; raise the limit (ulimit -n) to 64 or more\n"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the size of the table")
def test_the_table_of_descriptors_has_room_from_the_start() -> None:
    size = "next(line for line in open('/proc/self/status') if line.startswith('FDSize')).split()[1]"
    code = f"from dragoman.gateway.overload.descriptors import raise_limit; raise_limit(); print({size})"
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    told = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE)  # our own code
    assert int(told.stdout) >= (TABLE if hard == resource.RLIM_INFINITY else min(hard, TABLE))


def test_descriptor_shortage_does_not_hold_with_many_free_descriptors() -> None:
    assert descriptor_shortage() == ""


def test_descriptor_shortage_begins_before_the_last_descriptor_is_used() -> None:
    free = os.dup(0)
    os.close(free)
    set_soft(free + RESERVE + 3)
    opened = []
    try:
        while not descriptor_shortage():
            opened.append(os.dup(0))
        # Numbers between may be in use, so there are at most three.
        assert opened
        assert set(opened) <= {free, free + 1, free + 2}
        assert "ulimit -n" in descriptor_shortage()
    finally:
        for descriptor in opened:
            os.close(descriptor)


def test_descriptor_shortage_holds_when_no_descriptor_is_left() -> None:
    free = os.dup(0)
    os.close(free)
    set_soft(free)
    assert "too many open files" in descriptor_shortage()


def test_the_last_descriptors_are_reserved() -> None:
    set_soft(256)
    assert first_reserved() == 256 - RESERVE


def test_a_gateway_without_a_descriptor_for_a_client_warns_at_its_start() -> None:
    bridge = f"exec {sys.executable} -m dragoman bridge smooth+ws://127.0.0.1:0/ws pod+unix:/nowhere/sock"
    with subprocess.Popen(["sh", "-c", f"ulimit -n {RESERVE}; {bridge}"], stderr=subprocess.PIPE) as gateway:
        assert gateway.stderr is not None
        lines = iter(gateway.stderr.readline, b"")
        try:
            assert any(b"no client can connect" in line and b"ulimit -n" in line for line in lines)
        finally:
            gateway.terminate()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits another process")
def test_clients_without_descriptors_get_the_reason_and_are_counted_in_few_log_lines(tmp_path: Path) -> None:
    stderr, ops = tmp_path / "stderr", tmp_path / "ops"
    with stderr.open("wb") as log, ExitStack() as stack:
        options = ["--ops", f"unix:{ops}", "smooth+ws://127.0.0.1:0/ws", f"pod+unix:{tmp_path}/sock"]
        gateway = Fork("bridge", *options, streams=(NOTHING, NOTHING, log.fileno()))
        stack.callback(gateway.wait)
        stack.callback(gateway.kill)
        url = wait_for(lambda: stderr.read_text().partition("listening smooth+")[2].partition("\n")[0] or None)
        limit = max(int(number) for number in os.listdir(f"/proc/{gateway.pid}/fd")) + 1 + ROOM + RESERVE
        resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, (limit, limit))
        begun = time.monotonic()
        admitted, refused = [stack.enter_context(connect(url))], list[tuple[int, str]]()
        for _ in range(CLIENTS):
            try:
                admitted.append(stack.enter_context(connect(url)))
            except InvalidStatus as refusal:
                refused.append((refusal.response.status_code, refusal.response.body.decode()))
        assert 1 < len(admitted) <= ROOM
        assert refused == [(503, f"{NO_DESCRIPTOR}\n")] * (CLIENTS + 1 - len(admitted))
        admitted[0].send('{"action":"ping","requestId":"p"}')
        assert '"pong"' in str(admitted[0].recv())
        assert f'refused_total{{reason="descriptors",what="client"}} {len(refused)}.0' in metrics(ops)
        for client in admitted:
            client.close()
        stack.enter_context(wait_for(lambda: connected(url)))
        assert stderr.read_text().count("clients refused") <= 2 + time.monotonic() - begun


def metrics(ops: Path) -> str:
    """Return the metrics of the gateway with this ops port."""
    with socket.socket(socket.AF_UNIX) as asked:
        asked.connect(str(ops))
        asked.sendall(b"GET /metrics HTTP/1.0\r\nHost: ops\r\n\r\n")
        return asked.makefile("rb").read().decode()


def connected(url: str) -> ClientConnection | None:
    """Return a connection, or None if it is refused."""
    try:
        return connect(url)
    except InvalidStatus:
        return None


def wait_for(look: Callable[[], T | None]) -> T:
    """Look at another process until there is something, and return that."""
    until = time.monotonic() + DEADLINE
    while not (found := look()):
        assert time.monotonic() < until
        time.sleep(0.01)
    return found
