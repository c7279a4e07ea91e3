"""Run `dragoman ...` as a process of its own, without the second that Python takes to import it.

A program imports all of it once and forks itself for each call. What it forks has the arguments, environment, folder,
stdin, stdout and stderr of that call, and nothing of an earlier one. Whoever claims something about pipes, terminals or
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
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

ROOT = Path(__file__).parents[1]
DEADLINE = 50.0  # seconds for one call
PIECE = 1 << 16
STREAMS = (0, 1, 2)
NOTHING = -1  # a stream at the null device


class Call(Struct, frozen=True, kw_only=True):
    """A call of the program, sent along with its stdin, stdout and stderr; `code` is run in its place, if any."""

    arguments: list[str]
    environment: dict[str, str]
    folder: str
    code: str = ""


def dragoman(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run `dragoman ARGUMENTS`; return its exit code, stdout and stderr."""
    done = dragoman_bytes(*arguments, stdin=stdin.encode())
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def python(code: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run this code in a process of its own that has imported dragoman; return the result like `dragoman`."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        program = Fork(streams=(NOTHING, out.fileno(), errors.fileno()), code=code, environment=environment)
        done = program.wait()
        out.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(code, done, out.read(), errors.read())


def dragoman_bytes(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run `dragoman ...` like `dragoman`, with its input and output as bytes."""
    source, said = os.pipe()
    with (
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as errors,
        ThreadPoolExecutor(1) as writer,
    ):
        try:
            program = Fork(*arguments, streams=(source, out.fileno(), errors.fileno()))
        finally:
            os.close(source)
        writer.submit(_write, said, stdin)
        try:
            code = program.wait()
        except TimeoutError:
            program.kill()
            raise
        out.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(arguments, code, out.read(), errors.read())


@contextmanager
def forked_server(*arguments: str) -> Iterator[str]:
    """Run `dragoman ARGUMENTS`, and kill it when the block is left; yield the endpoint where it listens."""
    output, theirs = os.pipe()
    with open(output, encoding="utf-8") as errors:
        try:
            program = Fork(*arguments, streams=(NOTHING, NOTHING, theirs))
        finally:
            os.close(theirs)
        try:
            yield errors.readline().removeprefix("listening ").strip()
        finally:
            program.kill()
            program.wait()


class Fork:
    """A forked `dragoman ARGUMENTS`; `streams` are the descriptors of its stdin, stdout and stderr."""

    def __init__(
        self, *arguments: str, streams: Sequence[int], code: str = "", environment: dict[str, str] | None = None
    ) -> None:
        known = dict(os.environ) if environment is None else environment
        call = Call(arguments=list(arguments), environment=known, folder=os.getcwd(), code=code)
        self._call = socket.socket(socket.AF_UNIX)
        self._call.settimeout(DEADLINE)
        self._call.connect(_forker())
        with open(os.devnull, "r+b") as nothing:
            fds = [nothing.fileno() if fd == NOTHING else fd for fd in streams]
            socket.send_fds(self._call, [b"{"], fds)
            self._call.sendall(msgspec.json.encode(call)[1:] + b"\n")
            self._answers = self._call.makefile("rb")
            self.pid = int(self._answers.readline())
        self._code: int | None = None

    @property
    def returncode(self) -> int | None:
        """The exit code, or None while the program runs."""
        if self._code is None and select.select([self._call], [], [], 0)[0]:
            self.wait()
        return self._code

    def wait(self) -> int:
        """Wait until the program has ended; return its exit code."""
        if self._code is None:
            self._code = int(self._answers.readline())
            self._answers.close()
            self._call.close()
        return self._code

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


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
        fd = theirs.fileno()
        # The program forks and exits at once, because some tests wait for all children of this process. It gets a
        # socket as its streams: Python keeps whether they can seek, and the streams of a later call may be pipes.
        subprocess.run(
            [sys.executable, "-m", "tests.forked_program", path, str(fd)],
            check=True,
            pass_fds=[fd],
            stdin=fd,
            stdout=fd,
            stderr=fd,
            cwd=ROOT,
            timeout=DEADLINE,
        )
    return path


# -- the program that forks --------------------------------------------------------------------------


def serve(path: str, life: int) -> Call:
    """Fork for each call until `life` ends; return the call in the forked process."""
    lifeline = socket.socket(fileno=life)
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    if os.fork():
        os._exit(0)  # tells who started us that we listen
    os.setsid()
    ended, ends = socket.socketpair()
    ends.setblocking(False)
    signal.set_wakeup_fd(ends.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([server, lifeline, ended], [], [])
        if lifeline in ready:  # the process that started this one has ended
            for pid in running:
                os.kill(pid, signal.SIGKILL)
            os._exit(0)
        if ended in ready:
            ended.recv(PIECE)
            _tell_ends(running)
        if server in ready:
            call, _ = server.accept()
            request, fds, _, _ = socket.recv_fds(call, PIECE, len(STREAMS))
            while not request.endswith(b"\n"):
                request += call.recv(PIECE)
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for each in (server, lifeline, ended, ends, call, *running.values()):
                    each.close()
                return _become(msgspec.json.decode(request, type=Call), fds)
            for fd in fds:
                os.close(fd)
            call.sendall(b"%d\n" % pid)
            running[pid] = call


def _tell_ends(running: dict[int, socket.socket]) -> None:
    """Tell each caller whose program has ended its exit code."""
    for pid in [*running]:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            with running.pop(pid) as call, suppress(OSError):  # a caller that has left
                call.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def _become(call: Call, fds: list[int]) -> Call:
    for fd, stream in zip(fds, STREAMS, strict=True):
        os.dup2(fd, stream)
        os.close(fd)
    os.chdir(call.folder)
    os.environ.clear()
    os.environ.update(call.environment)
    random.seed()
    return call


if __name__ == "__main__":
    import typer._adapters  # noqa: F401  # typer imports it late

    from dragoman.gateway.cli import program

    for command in program.COMMANDS:
        program.load_command(command)
    gc.freeze()  # a collection at the end of a call would copy all that was imported
    call = serve(sys.argv[1], int(sys.argv[2]))
    sys.argv[1:] = call.arguments
    try:
        if call.code:
            exec(call.code, {"__name__": "__main__"})
            sys.exit()
        program.main()
    except SystemExit as end:
        atexit._run_exitfuncs()  # they write the lines of the log that wait
        os._exit(int(end.code or 0))  # freeing all that was imported would take most of the time of a call
