"""The process of a child, in its own process group, from the spawn until no process of the group is left.

A pidfd (or a timer, where there is none) reports the exit, and this module reaps the child. An event loop's child
watcher would wait until every process that inherited a pipe has closed it, and a thread for each child is costly.
Between exit and reaping the process id cannot be reused, so the group is signalled at that moment. The rest of the
group is found by polling; a grandchild counts until it has been reaped.

The child gets its own session, so it has no terminal: Ctrl-C reaches the gateway, which then ends the child.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import IO, cast

from msgspec import Struct, structs

from dragoman.adapters.base import do_nothing
from dragoman.adapters.stdio.ends import File
from dragoman.mappings.errors import ConfigError

OTHER_USER = "its rlimits cannot be set, because it runs as another user; set them there, for example by prlimit"
POLL = 0.02  # seconds between two polls for grandchildren, whose exit sends us no signal


class ChildLimits(Struct, frozen=True, kw_only=True, gc=False):
    """The bounds of a child process, beside TransportLimits. Sizes are in bytes, times in seconds.

    `start_watch`: a child that exits silently within this time has failed to start. `stderr`: size of the last lines
    that are kept. A child is ended in these steps: EOF on stdin, `eof_wait`, SIGTERM to its group, `term_wait`, SIGKILL
    to its group, `kill_wait`.
    """

    start_watch: float = 0.1  # five times as long as a program needs to reject an unknown argument
    stderr: int = 64 * 1024
    eof_wait: float = 2.0  # an idle codewhale server exits at once; a busy one would first finish its turn
    term_wait: float = 2.0
    kill_wait: float = 1.0  # the kernel ends it at once unless it waits for a broken disk


class ChildSettings(Struct, frozen=True, kw_only=True):
    """The environment and the bounds of a child process, as its route says (docs/design.md, section 6).

    `env`: its whole environment. `withheld`: names of the gateway's variables that it does not get, for the log.
    `rlimits`: number of a resource (RLIMIT_NOFILE and so on) -> its soft and hard limit. `reap_all`: also end the
    processes that the child has put into sessions of their own.
    """

    env: Mapping[str, str]
    withheld: tuple[str, ...] = ()
    rlimits: Mapping[int, tuple[int, int]] = {}
    reap_all: bool = False


class Streams(Struct, frozen=True):
    """The gateway's ends of a child's pipes."""

    stdin: File
    stdout: File
    stderr: File


class Process:
    """A running child process.

    `ended` is called once, when the child has exited and before anything else reports it. `over` is called once with
    the group's number, when no process of the group is left.
    """

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str | None,
        bounds: ChildLimits,
        ended: Callable[[], None],
        *,
        rlimits: Mapping[int, tuple[int, int]] | None = None,
        over: Callable[[int], None] = do_nothing,
    ) -> None:
        self._bounds = bounds
        self._ended = ended
        self._on_end = over
        self._loop = asyncio.get_running_loop()
        self._popen = popen = _spawned(argv, env, cwd)
        self._over = False  # no process of the group is left
        self.pid = popen.pid
        self.exited = asyncio.Event()
        self.streams = Streams(*(_ours(file) for file in (popen.stdin, popen.stdout, popen.stderr)))
        self._watch()
        try:
            self._set_rlimits(rlimits or {})
        except PermissionError as error:
            self._discard()
            raise PermissionError(error.errno, OTHER_USER, argv[0]) from error

    def status(self) -> str:
        """Return the child's state or exit status as text."""
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
        """End the child and its group after EOF was sent. Takes at most the three deadlines, also when cancelled."""
        try:
            if not await self._gone(self._bounds.eof_wait):
                self._signal(signal.SIGTERM)
                await self._gone(self._bounds.term_wait)
        finally:
            self.kill()
            await self._gone(self._bounds.kill_wait)

    def kill(self) -> None:
        """Send SIGKILL to the rest of the group; the event loop reaps the child later."""
        self._signal(signal.SIGKILL)

    # --------------------------------------------------------------------------------------------------

    def _set_rlimits(self, rlimits: Mapping[int, tuple[int, int]]) -> None:
        """Limit the child's resources: (soft, hard) for each; RLIM_INFINITY keeps the inherited one, which is the most.

        A function that runs between fork and exec could deadlock, because the gateway has threads. So the limits are
        set from outside once the program has started; what it has by then is not taken away.
        """
        for number, (soft, hard) in rlimits.items():
            with contextlib.suppress(ProcessLookupError):  # it has exited already
                most = _least(hard, resource.prlimit(self.pid, number)[1])
                resource.prlimit(self.pid, number, (_least(soft, most), most))

    def _discard(self) -> None:
        """End a child that has only just been started. If we may not signal it, its closed pipes end it."""
        self._ended = do_nothing
        self.kill()
        for file in structs.astuple(self.streams):
            file.close()

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
        self._signal(signal.SIGTERM)  # the children of an exited server are of no use
        self._popen.wait()
        self._is_over()
        self.exited.set()
        self._ended()
        self._ended = do_nothing  # the child's transport is freed without the garbage collector

    async def _gone(self, wait: float) -> bool:
        """Return True if the whole group has ended within `wait` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self.exited.wait()
                while not self._is_over():  # noqa: ASYNC110  # nothing reports the exit of a grandchild
                    await asyncio.sleep(POLL)
        return self._over

    def _is_over(self) -> bool:
        """Return True if no process of the group is left; after that the group's number may be reused."""
        if not self._over and self._nobody_left():
            self._over = True
            self._on_end(self.pid)
        return self._over

    def _nobody_left(self) -> bool:
        with contextlib.suppress(ChildProcessError):  # the first process of a container gets those without a parent
            while os.waitpid(-self.pid, os.WNOHANG)[0]:
                pass
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):  # a process that we may not signal is not ours
            return True
        return False

    def _signal(self, number: signal.Signals) -> None:
        if not self._over:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)


def _spawned(argv: Sequence[str], env: Mapping[str, str], cwd: str | None) -> subprocess.Popen[bytes]:
    """Start the child; raise OSError or ConfigError with advice."""
    if not argv:
        raise ConfigError("no program to start: write it after `stdio:`, for example `codewhale app-server`")
    if any("\0" in word for word in argv):
        raise ConfigError(f"{argv[0]!r}: an argument must not contain a NUL character")
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(  # noqa: S603  # argv is the configuration's, and no shell reads it
            argv, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, env=env, cwd=cwd, start_new_session=True
        )
    except OSError as error:
        raise OSError(error.errno, _advice(error, argv[0], env, cwd), argv[0]) from error


def _least(one: int, other: int) -> int:
    if resource.RLIM_INFINITY in (one, other):
        return one if other == resource.RLIM_INFINITY else other
    return min(one, other)


def _ours(file: IO[bytes] | None) -> File:
    pipe = cast(File, file)  # Popen was told to make it
    os.set_blocking(pipe.fileno(), False)
    return pipe


def _advice(error: OSError, program: str, env: Mapping[str, str], cwd: str | None) -> str:
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR if cwd is not None and not os.path.isdir(cwd):
            return f"the working directory {cwd} does not exist"
        case errno.ENOENT if "/" in program and os.path.exists(program):
            return "the interpreter named in its first line does not exist"
        case errno.ENOENT if "/" in program:
            return "no such program; check its path"
        case errno.ENOENT:
            return "no such program in PATH; install it, or write its full path"
        case errno.EACCES if shutil.which(program, path=env.get("PATH")) is None:
            return "not executable; use chmod +x, or write its interpreter before it"
        case errno.ENOEXEC:
            return "not a program; name its interpreter in its first line (#!), or write it before the file"
        case errno.EMFILE | errno.ENFILE:
            return "too many open files; raise the limit (ulimit -n)"
        case number:
            return os.strerror(number or errno.EIO)
