"""The start and the end of each process.

Ctrl-C ends it with 130 and without a word, also while it imports modules and while it exits. Without some of its
standard descriptors it serves.
"""

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
from tests.awaited import spawned, until

DEADLINE = 40.0  # seconds for one command on a busy machine
INTERRUPTED_IMPORT = """
import signal, sys
class Interrupter:
    def find_spec(self, name, *_):
        if name == {module!r}:
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                raise ImportError("as Python makes it of any error in some imports")
sys.meta_path.insert(0, Interrupter())
"""
INTERRUPTED_EXIT = """
import atexit, signal
atexit.register(signal.raise_signal, signal.SIGINT)
"""
RUN = """
from dragoman.gateway import entry
entry.{entry}()
"""


@pytest.mark.parametrize(
    ("entry", "arguments", "module"),
    [
        ("main", ["--version"], "dragoman.gateway.cli"),
        ("main", ["--version"], "typer"),
        ("main", ["serve"], "structlog"),
        ("main", ["import"], "msgspec"),
        ("pod", ["--pod", "atlas"], "dragoman.gateway.launched"),
        ("pod", ["--pod", "atlas"], "uvloop"),
        ("codewhale", ["app-server", "--stdio"], "argparse"),
        ("codewhale", ["app-server", "--stdio"], "structlog"),
    ],
)
def test_an_interrupt_during_an_import_exits_130_without_a_word(entry: str, arguments: list[str], module: str) -> None:
    program = INTERRUPTED_IMPORT.format(module=module) + RUN.format(entry=entry)
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, timeout=DEADLINE, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


@pytest.mark.parametrize(("entry", "arguments"), [("main", ["--version"]), ("codewhale", ["--help"])])
def test_an_interrupt_while_the_process_exits_ends_it_without_a_word(entry: str, arguments: list[str]) -> None:
    command = [sys.executable, "-c", INTERRUPTED_EXIT + RUN.format(entry=entry), *arguments]
    done = subprocess.run(command, capture_output=True, timeout=DEADLINE, check=False)
    assert (done.returncode, done.stderr) == (130, b"")


# -- standard descriptors that are missing ------------------------------------------------------------


@pytest.mark.parametrize("closed", ["2>&-", ">&- <&-", ">&- <&- 2>&-"])
async def test_a_gateway_without_some_standard_descriptors_serves_and_ends_with_0(closed: str, tmp_path: Path) -> None:
    at, backend = tmp_path / "sock", tmp_path / "backend"
    bridge = (sys.executable, "-m", "dragoman", "bridge", f"pod+unix:{at}", f"pod+unix:{backend}")
    nowhere = asyncio.subprocess.DEVNULL
    command = ("bash", "-c", f'exec "$@" {closed}', "bash", *bridge)
    async with spawned(*command, stdin=nowhere, stdout=nowhere, stderr=nowhere) as process:
        async with asyncio.timeout(DEADLINE):
            await until(lambda: alive(str(at)) or process.returncode is not None)
            for _ in range(3):  # a connection that closes is what libuv aborted at
                _, writer = await asyncio.open_unix_connection(str(at))
                writer.close()
                await writer.wait_closed()
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0


def test_output_without_a_stdout_ends_as_if_its_reader_had_closed_it() -> None:
    shown = ("bash", "-c", 'exec "$@" >&-', "bash", sys.executable, "-m", "dragoman", "dialects", "--json")
    assert subprocess.run(shown, timeout=DEADLINE, check=False).returncode == 128 + signal.SIGPIPE


# -- a stderr that nobody reads, as if an editor had spawned the gateway ---------------------------


CONNECTIONS = 64  # their lines fill the pipe several times
SMALL = 4096  # bytes: the smallest pipe there is


def client(path: Path) -> bytes:
    """Connect as a pod client; return the first bytes that the gateway sends."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(DEADLINE)
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
            assert program.wait(DEADLINE) == 0
        finally:
            program.kill()
