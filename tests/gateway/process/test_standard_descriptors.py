from __future__ import annotations

import asyncio
import fcntl
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.adapters.unix import alive
from tests.adapters.stdio.programs import DEADLINE, until


@pytest.mark.parametrize("closed", ["2>&-", ">&- <&-", ">&- <&- 2>&-"])
async def test_a_gateway_without_some_standard_descriptors_serves_and_ends_with_0(closed: str, tmp_path: Path) -> None:
    at, backend = tmp_path / "sock", tmp_path / "backend"
    bridge = (sys.executable, "-m", "dragoman", "bridge", f"pod+unix:{at}", f"pod+unix:{backend}")
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-c",
        f'exec "$@" {closed}',
        "bash",
        *bridge,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(2 * DEADLINE):
            await until(lambda: alive(str(at)) or process.returncode is not None)
            for _ in range(3):  # a connection that closes is what libuv aborted at
                _, writer = await asyncio.open_unix_connection(str(at))
                writer.close()
                await writer.wait_closed()
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def test_output_without_a_stdout_ends_as_if_its_reader_had_closed_it() -> None:
    shown = ("bash", "-c", 'exec "$@" >&-', "bash", sys.executable, "-m", "dragoman", "dialects", "--json")
    assert subprocess.run(shown, timeout=DEADLINE, check=False).returncode == 128 + signal.SIGPIPE


# -- a stderr that nobody reads, as if an editor had spawned the gateway ---------------------------


CONNECTIONS = 64  # their lines fill the pipe several times
SMALL = 4096  # bytes: the smallest pipe there is
END_DEADLINE = 30


def client(path: Path) -> bytes:
    """Connect as a pod client; return the first bytes that the gateway sends."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(END_DEADLINE)
        peer.connect(str(path))
        return peer.recv(1 << 16)


def test_a_gateway_with_a_full_stderr_keeps_serving_and_ends_on_sigterm(tmp_path: Path) -> None:
    listen, backend = tmp_path / "sock", tmp_path / "backend"
    argv = [sys.executable, "-m", "dragoman", "bridge", f"pod+unix:{listen}", f"pod+unix:{backend}"]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, bufsize=0) as program:
        assert program.stderr is not None
        try:
            fcntl.fcntl(program.stderr, fcntl.F_SETPIPE_SZ, SMALL)
            assert program.stderr.readline() == f"listening pod+unix:{listen}\n".encode()
            for _ in range(CONNECTIONS):
                assert client(listen)
            program.send_signal(signal.SIGTERM)
            assert program.wait(END_DEADLINE) == 0
        finally:
            program.kill()
