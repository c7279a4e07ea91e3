"""Run `dragoman ...` as a process of its own, without the second that Python takes to import it.

A program imports all of it once and forks itself for each call. What it forks has the arguments, environment, folder,
stdin, stdout and stderr of that call, and nothing of an earlier one. Whoever claims something about signals, pipes or
the start of a process runs `python -m dragoman` itself.
"""

from __future__ import annotations

import atexit
import gc
import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

ROOT = Path(__file__).parents[1]
DEADLINE = 50.0  # seconds for one call
PIECE = 1 << 16
STREAMS = (0, 1, 2)


class Call(Struct, frozen=True, kw_only=True):
    """A call of the program, sent along with its stdin, stdout and stderr."""

    arguments: list[str]
    environment: dict[str, str]
    folder: str


def dragoman(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run `dragoman ARGUMENTS`; return its exit code, stdout and stderr."""
    done = dragoman_bytes(*arguments, stdin=stdin.encode())
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def dragoman_bytes(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run `dragoman ...` like `dragoman`, with its input and output as bytes."""
    request = msgspec.json.encode(Call(arguments=list(arguments), environment=dict(os.environ), folder=os.getcwd()))
    source, said = os.pipe()
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as errors,
        socket.socket(socket.AF_UNIX) as call,
        call.makefile("rb") as answers,
        ThreadPoolExecutor(1) as writer,
    ):
        try:
            call.settimeout(DEADLINE)
            call.connect(_forker())
            socket.send_fds(call, [b"{"], [source, out.fileno(), errors.fileno()])
            call.sendall(request[1:] + b"\n")
        finally:
            os.close(source)
        writer.submit(_write, said, stdin)
        pid = int(answers.readline())
        try:
            code = int(answers.readline())
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise
        out.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(arguments, code, out.read(), errors.read())


def _write(fd: int, data: bytes) -> None:
    with open(fd, "wb", 0) as file:
        try:
            while data:
                data = data[file.write(data) :]
        except BrokenPipeError:
            pass  # it did not want to read all of it


@cache
def _forker() -> str:
    """Start the program that forks; return the address where it listens while this process lives."""
    folder = tempfile.TemporaryDirectory(prefix="forked-")
    atexit.register(folder.cleanup)
    path = f"{folder.name}/sock"
    ours, theirs = socket.socketpair()
    atexit.register(ours.close)
    with theirs:
        # It is no child of ours for long: some tests wait for all of them.
        subprocess.run(
            [sys.executable, "-m", "tests.forked_program", path, str(theirs.fileno())],
            check=True,
            pass_fds=[theirs.fileno()],
            cwd=ROOT,
            timeout=DEADLINE,
        )
    return path


# -- the program that forks --------------------------------------------------------------------------


def serve(path: str, life: int) -> list[str]:
    """Fork for each call until `life` ends; return the arguments in the forked process."""
    lifeline = socket.socket(fileno=life)
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    if os.fork():
        os._exit(0)  # tells who started us that we listen
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    while _called(server, lifeline):
        call, _ = server.accept()
        request, fds, _, _ = socket.recv_fds(call, PIECE, len(STREAMS))
        while not request.endswith(b"\n"):
            request += call.recv(PIECE)
        pid = os.fork()
        if not pid:
            for each in (server, lifeline, call):
                each.close()
            return _become(msgspec.json.decode(request, type=Call), fds)
        for fd in fds:
            os.close(fd)
        call.sendall(b"%d\n" % pid)
        _, status = os.waitpid(pid, 0)
        call.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
        call.close()
    os._exit(0)


def _called(server: socket.socket, lifeline: socket.socket) -> bool:
    """Wait for a call, or for the end of the process that started this one."""
    ready, _, _ = select.select([server, lifeline], [], [])
    return lifeline not in ready


def _become(call: Call, fds: list[int]) -> list[str]:
    for fd, stream in zip(fds, STREAMS, strict=True):
        os.dup2(fd, stream)
        os.close(fd)
    os.chdir(call.folder)
    os.environ.clear()
    os.environ.update(call.environment)
    random.seed()
    return call.arguments


if __name__ == "__main__":
    import typer._adapters  # noqa: F401  # typer imports it late

    from dragoman.gateway.cli import program

    for command in program.COMMANDS:
        program.load_command(command)
    gc.freeze()  # a collection at the end of a call would copy all that was imported
    sys.argv[1:] = serve(sys.argv[1], int(sys.argv[2]))
    try:
        program.main()
    except SystemExit as end:
        atexit._run_exitfuncs()  # they write the lines of the log that wait
        os._exit(int(end.code or 0))  # freeing all that was imported would take most of the time of a call
