"""A gateway whose stderr nobody reads, as if an editor had spawned it."""

from __future__ import annotations

import fcntl
import signal
import socket
import subprocess
import sys
from pathlib import Path

CONNECTIONS = 320  # 272 filled a pipe of 64 KiB
SMALL = 4096  # bytes of the pipe here
DEADLINE = 30


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
