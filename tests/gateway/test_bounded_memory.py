"""A real gateway process stays small while 20 clients each leave a message of 16 MiB unfinished."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

MIB = 1024 * 1024
MEMORY = 64 * MIB
CLIENTS, MESSAGE, PIECE = 20, 16 * MIB, MIB // 4
HEADER = b"\x81\xff" + MESSAGE.to_bytes(8) + bytes(4)  # of a WebSocket text message, masked with zeros
UPGRADE = (
    b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
CONFIG = """
[[route]]
listen = ["{listen}"]
upstream = "pod+unix:/nowhere/sock"
[limits]
memory = {memory}
"""


@contextmanager
def gateway(folder: Path, listen: str) -> Iterator[tuple[int, str]]:
    """Run a gateway; yield its process id and the endpoint where it listens."""
    config = folder / "gateway.toml"
    config.write_text(CONFIG.format(listen=listen, memory=MEMORY), "utf-8")
    command = [sys.executable, "-m", "dragoman", "serve", "--config", str(config)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        endpoint = next(line for line in lines if line.startswith("listening ")).split()[1]
        try:
            yield process.pid, endpoint
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate()


def peak(pid: int) -> int:
    """Return the largest resident size of a process so far, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text("utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def connected(endpoint: str) -> socket.socket:
    """Connect a client that has begun a message."""
    if endpoint.startswith("pod+unix:"):
        client = socket.socket(socket.AF_UNIX)
        client.connect(endpoint.removeprefix("pod+unix:"))
        client.sendall(b'{"')
    else:
        url = urlsplit(endpoint.partition("+")[2])
        client = socket.create_connection((url.hostname, url.port))
        client.sendall(UPGRADE)
        assert client.recv(4096).startswith(b"HTTP/1.1 101")
        client.sendall(HEADER)
    client.settimeout(30)
    return client


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="a peak of memory is read from /proc")
@pytest.mark.parametrize("listen", ["pod+unix:{}/sock", "smooth+ws://127.0.0.1:0/ws"])
def test_unfinished_messages_of_many_clients_take_no_more_than_the_limit(listen: str, tmp_path: Path) -> None:
    with gateway(tmp_path, listen.format(tmp_path)) as (pid, endpoint), ExitStack() as clients:
        idle = peak(pid)
        writing = [clients.enter_context(connected(endpoint)) for _ in range(CLIENTS)]
        for _ in range(MESSAGE // PIECE - 1):
            for client in list(writing):
                try:
                    client.sendall(b"x" * PIECE)
                except ConnectionError:
                    writing.remove(client)
        assert peak(pid) - idle < 1.4 * MEMORY, "20 such messages would take 320 MiB"
        assert len(writing) < CLIENTS, "some had to go"
