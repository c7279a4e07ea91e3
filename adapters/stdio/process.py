"""One child in a process group of its own, from its spawning until nobody of its group is left.

A pidfd tells that it ended (a timer, where there is none), and we reap it: neither an event loop's watcher, which waits
until whoever inherited a pipe has closed it, nor a thread a child. Between its end and its reaping its number cannot be
given to anybody else, so that is the moment in which its group is told to end too. What is left of the group after it
is found out by looking; a grandchild counts until the system's first process has reaped it.

A session of its own, not a group alone: it has no terminal, so that Ctrl-C ends us and we end the child.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import IO, cast

from msgspec import Struct

from dragoman.adapters.stdio.ends import File
from dragoman.mappings.errors import ConfigError

__all__ = ["Bounds", "Process", "Streams"]

POLL = 0.02  # seconds between two looks at what sends no signal when it ends: a grandchild


class Bounds(Struct, frozen=True, kw_only=True, gc=False):
    """What is bounded of a child beside Limits. Sizes in bytes, times in seconds.

    `start_watch`: a child that ends in this time without a word was never started. `stderr`: its last lines that are
    kept. The way to its end: EOF on its stdin, `eof_wait`, TERM to its group, `term_wait`, KILL to its group,
    `kill_wait`, and by then it has been reaped.
    """

    start_watch: float = 0.1  # five times what a program takes that does not know its argument
    stderr: int = 64 * 1024
    eof_wait: float = 2.0  # a codewhale server that is idle ends at once; one in a turn would first finish it
    term_wait: float = 2.0
    kill_wait: float = 1.0  # the kernel ends it at once unless it waits for a broken disk


class Streams(Struct, frozen=True):
    """Our ends of its pipes."""

    stdin: File
    stdout: File
    stderr: File


class Process:
    """A child that runs.

    `ended` is called once, when it has ended and before anybody hears of it in another way. `over` is called once, with
    its group, when nobody of that is left.
    """

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: str | None, bounds: Bounds, ended: Callable[[], None],
        *, over: Callable[[int], None] = lambda _group: None,
    ) -> None:  # fmt: skip
        self._bounds = bounds
        self._ended = ended
        self._told_over = over
        self._loop = asyncio.get_running_loop()
        self._popen = _spawned(argv, env, cwd)
        self._over = False  # nobody of its group is left
        self.pid = self._popen.pid
        self.exited = asyncio.Event()
        popen = self._popen
        self.streams = Streams(*(_ours(file) for file in (popen.stdin, popen.stdout, popen.stderr)))
        self._watch()

    def status(self) -> str:
        """How it ended."""
        match self._popen.returncode:
            case None:
                return "runs"
            case status if status >= 0:
                return f"exited with status {status}"
            case number:
                with contextlib.suppress(ValueError):
                    return f"was ended by {signal.Signals(-number).name}"
                return f"was ended by signal {-number}"  # a real-time one, which has no name

    async def end(self) -> None:
        """End it and its group; EOF was sent. Over within the three deadlines, also when it is cancelled."""
        try:
            if not await self._gone(self._bounds.eof_wait):
                self._signal(signal.SIGTERM)
                await self._gone(self._bounds.term_wait)
        finally:
            self.kill()
            await self._gone(self._bounds.kill_wait)

    def kill(self) -> None:
        """KILL to whoever is left of its group; it is reaped as soon as the loop hears of it."""
        self._signal(signal.SIGKILL)

    # --------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        try:
            self._pidfd = os.pidfd_open(self.pid)
        except (AttributeError, OSError):  # not Linux, or a sandbox without it
            self._pidfd = -1
            self._loop.call_later(POLL, self._look)
        else:
            self._loop.add_reader(self._pidfd, self._exited)

    def _look(self) -> None:
        if self._popen.poll() is None:
            self._loop.call_later(POLL, self._look)
        else:
            self._exited()

    def _exited(self) -> None:
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
        self._signal(signal.SIGTERM)  # a server that has ended has no use for its own children
        self._popen.wait()
        self._is_over()
        self.exited.set()
        self._ended()

    async def _gone(self, wait: float) -> bool:
        """Whether the child and everybody of its group ended within `wait` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self.exited.wait()
                while not self._is_over():  # noqa: ASYNC110  # grandchildren are not ours: nothing tells of their end
                    await asyncio.sleep(POLL)
        return self._over

    def _is_over(self) -> bool:
        """Look whether anybody of its group is left; its number may be given to others as soon as nobody is."""
        if not self._over and self._nobody_left():
            self._over = True
            self._told_over(self.pid)
        return self._over

    def _nobody_left(self) -> bool:
        with contextlib.suppress(ChildProcessError):  # as the first process of a container we inherit orphans
            while os.waitpid(-self.pid, os.WNOHANG)[0]:
                pass
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):  # those who may not be signalled are not ours to end
            return True
        return False

    def _signal(self, number: signal.Signals) -> None:
        if not self._over:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)


def _spawned(argv: Sequence[str], env: Mapping[str, str], cwd: str | None) -> subprocess.Popen[bytes]:
    """The child; OSError or ConfigError say what to do."""
    if not argv:
        raise ConfigError("there is no program to spawn: write it behind `stdio:`, for example `codewhale app-server`")
    if any("\0" in word for word in argv):
        raise ConfigError(f"{argv[0]!r}: an argument with a NUL in it cannot be passed on")
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(  # noqa: S603  # argv is the configuration's, and no shell reads it
            argv, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, env=env, cwd=cwd, start_new_session=True
        )
    except OSError as error:
        raise OSError(error.errno, _advice(error, argv[0], env, cwd), argv[0]) from error


def _ours(file: IO[bytes] | None) -> File:
    pipe = cast(File, file)  # Popen was told to make it
    os.set_blocking(pipe.fileno(), False)
    return pipe


def _advice(error: OSError, program: str, env: Mapping[str, str], cwd: str | None) -> str:
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR if cwd is not None and not os.path.isdir(cwd):
            return f"the directory to run in, {cwd}, does not exist"
        case errno.ENOENT if "/" in program and os.path.exists(program):
            return "the interpreter that its first line names does not exist"
        case errno.ENOENT if "/" in program:
            return "there is no such program; check its path"
        case errno.ENOENT:
            return "there is no such program in PATH; install it, or write its whole path"
        case errno.EACCES if shutil.which(program, path=env.get("PATH")) is None:
            return "it may not be executed; make it executable with chmod +x, or name its interpreter before it"
        case errno.ENOEXEC:
            return "it is no program; name its interpreter in its first line (#!), or before it"
        case errno.EMFILE | errno.ENFILE:
            return "too many files are open to spawn it; raise the limit (ulimit -n)"
        case number:
            return os.strerror(number or errno.EIO)
