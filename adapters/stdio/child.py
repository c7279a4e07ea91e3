"""Child processes as peers, bounded in number: the stdin and stdout of each form one transport.

    async with Children(most=10) as children:
        transport = await children.spawn(["codewhale", "app-server", "--stdio"], limits, ChildSettings(env=env))

The transport ends when the child has exited or closed its stdout. Output written before is delivered first. It also
ends `eof_wait` after a write found that the child has closed its stdin: no further command would reach it. A process
that inherited the child's stdout does not keep the transport open.

Children are spawned only here. Leaving the block ends all of them. If the process exits without leaving the block
(`sys.exit` in a signal handler), an `atexit` hook kills them. If the process is killed, its watchdog ends them.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import errno
import os
import signal
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import structlog
from structlog.typing import FilteringBoundLogger

from dragoman.adapters.base import CloseReason, Sink, TransportLimits
from dragoman.adapters.stdio.ends import REST
from dragoman.adapters.stdio.process import ChildLimits, ChildSettings, Process
from dragoman.adapters.stdio.stderr_tail import StderrTail
from dragoman.adapters.stdio.stream import LineStream
from dragoman.adapters.stdio.watchdog import Watchdog
from dragoman.adapters.stdio.watchdog_program import MARK, find_marked, send

log = structlog.get_logger("dragoman.child")

DEFAULTS = ChildLimits()
POLL = 0.05  # seconds between two looks for strays that have ended
EXIT_WAIT = 0.1  # seconds to wait for the exit after the pipes closed: the kernel needs microseconds


class ChildTransport(LineStream):
    """The transport of one child process; created by `Children.spawn`."""

    def __init__(
        self,
        argv: Sequence[str],
        limits: TransportLimits,
        bounds: ChildLimits,
        *,
        settings: ChildSettings,
        cwd: str | None,
        over: Callable[[ChildTransport], None],
        watchdog: Watchdog,
    ) -> None:
        self._program = os.path.basename(argv[0]) if argv else ""
        self._bounds = bounds
        self._forget = over
        self._rest = REST
        self._begun = asyncio.Event()  # the child has written something, or has exited
        self._is_ended = False  # by the gateway
        self._is_unread = False  # the child has closed its stdin
        self.is_released = False
        """True if the gateway ended the child in order, while it ran."""
        self._settings = settings
        self._mark = uuid.uuid4().hex
        env = {**settings.env, MARK: self._mark}
        self._process = Process(argv, env, cwd, bounds, self._exited, rlimits=settings.rlimits, over=watchdog.forget)
        self.pid = self._process.pid
        watchdog.watch(self.pid, self._mark if settings.reap_all else "")
        self.peer = f"{self._program} pid={self.pid}"
        self._log = log.bind(program=self._program, pid=self.pid)
        self._stderr = StderrTail(self._process.streams.stderr, bounds.stderr, pid=self.pid)
        super().__init__(self._process.streams.stdout, self._process.streams.stdin, limits)

    @property
    def reason(self) -> str:
        """The child's state or exit status, with the last lines of its stderr: the text for users whose backend is
        gone.
        """
        tail = self._stderr.text()
        lives = not self._process.exited.is_set()
        closed = f"closed its {'stdin' if self._is_unread else 'stdout'}"
        status = closed if lives and self._in.closed else self._process.status()
        summary = f"{self._program} {status}"
        return f"{summary}: {tail}" if tail else summary

    async def run(self, sink: Sink) -> None:
        await super().run(sink)
        await self._wait_for_exit()

    async def send(self, frames: Sequence[bytes]) -> None:
        try:
            await super().send(frames)
        except ConnectionError as error:
            await self._wait_for_exit()
            raise ConnectionResetError(f"the child no longer reads its stdin: {self.reason}") from error

    async def close(self, reason: CloseReason = CloseReason.DONE, text: str = "") -> None:
        """Flush, send EOF, and end the child in the steps of `ChildLimits`. Idempotent.

        No process of its group is left afterwards. Processes in other sessions are ended too with `reap_all`, else
        logged.
        """
        if not self._is_ended:
            self.is_released = reason is CloseReason.DONE and not self._in.closed and not self._process.exited.is_set()
        self._is_ended = True
        try:
            await self._finish_writing()
        except BaseException:
            self._process.kill()
            raise
        finally:
            try:
                await self._process.end()
                await end_strays(self._mark, self._log, reap=self._settings.reap_all, wait=self._bounds.term_wait)
            finally:
                self._in.close()
                self._stderr.close()
                self._forget(self)

    def kill(self) -> None:
        """Send SIGKILL to the child's group without an event loop, for use at interpreter exit."""
        self._is_ended = True
        self._process.kill()

    async def wait_started(self) -> None:
        """Wait until the child has written something or has run for `start_watch`; raise OSError if it exits before."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._bounds.start_watch):
                await self._begun.wait()
        if self._process.exited.is_set() and not self.size:
            raise OSError(f"the child exited at once: {self.reason}")

    # --------------------------------------------------------------------------------------------------

    async def _wait_for_exit(self) -> None:
        """Wait briefly for the exit after the pipes closed, so that `reason` contains the exit status."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EXIT_WAIT):
                await self._process.exited.wait()

    def _lose_reader(self) -> None:
        self._is_unread = True
        asyncio.get_running_loop().call_later(self._bounds.eof_wait, self._in.close_after_rest)

    def data_received(self, data: bytes) -> None:
        self._begun.set()
        super().data_received(data)

    def _control_reading(self) -> None:
        if not self._process.exited.is_set():
            super()._control_reading()
            return
        while not self._in.closed and not self.full:
            self._rest -= 1
            if not self._in.read() or not self._rest:
                self._in.close()

    def _exited(self) -> None:
        self._stderr.finish()
        self._in.pause()
        self._control_reading()
        self._out.close()
        if not self._begun.is_set() and not self._is_ended and self._settings.withheld:
            self._log.warning(
                "the child ended before it wrote anything; it did not get these variables of the gateway's environment:"
                " name those that it needs in the route's `env`",
                variables=", ".join(self._settings.withheld),
            )
        self._begun.set()


async def end_strays(mark: str, log: FilteringBoundLogger, *, reap: bool, wait: float) -> None:
    """Log the processes that outlive a child whose group has ended. With `reap`, end them: SIGTERM, and SIGKILL after
    `wait` seconds.

    These are daemons and language servers in sessions of their own, which a signal to the child's group does not reach.
    Each process inherits a variable that marks the child, so they are found by their environment (Linux only). A
    process that clears its environment is not found.
    """
    variable = f"{MARK}={mark}"
    strays = await asyncio.to_thread(find_marked, variable)
    if not strays:
        return
    names = ", ".join(f"{_name(pid)} ({pid})" for pid in strays)
    if not reap:
        log.warning(
            'processes of the child still run in sessions of their own; the route\'s `reap = "all"` would end them',
            left=names,
        )
        return
    log.info("end the processes that the child left in sessions of their own", left=names)
    for number in (signal.SIGTERM, signal.SIGKILL):
        until = asyncio.get_running_loop().time() + wait
        send(strays, number, os.kill)
        while strays and asyncio.get_running_loop().time() < until:
            await asyncio.sleep(POLL)
            strays = await asyncio.to_thread(find_marked, variable)


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
    except OSError:  # it has ended meanwhile
        return "?"


class Children:
    """The running children, at most `most`. A child is counted until its whole process group has ended."""

    def __init__(self, most: int, bounds: ChildLimits = DEFAULTS) -> None:
        self.most = most
        self._bounds = bounds
        self._live: set[ChildTransport] = set()
        self._ending = False
        self._watchdog = Watchdog()

    def change_most(self, most: int) -> None:
        """Allow another number of children; those that run stay."""
        self.most = most

    def __len__(self) -> int:
        return len(self._live)

    @property
    def are_full(self) -> bool:
        """True if no further child may be started."""
        return len(self._live) >= self.most

    async def spawn(
        self, argv: Sequence[str], limits: TransportLimits, settings: ChildSettings, *, cwd: str | None = None
    ) -> ChildTransport:
        """Start a child; raise OSError with the reason, EBUSY if the limit is reached."""
        if self._ending:
            raise OSError(errno.EBUSY, "busy: the gateway is stopping and starts no more children", *argv[:1])
        if self.are_full:
            text = f"busy: all {self.most} child processes are in use (`children` in `[limits]`); try again later"
            raise OSError(errno.EBUSY, text, *argv[:1])
        self._watchdog.start()
        child = ChildTransport(
            argv, limits, self._bounds, settings=settings, cwd=cwd, over=self._live.discard, watchdog=self._watchdog
        )
        self._live.add(child)
        try:
            await child.wait_started()
        except BaseException:
            child.kill()
            await child.close()
            raise
        return child

    async def close(self) -> None:
        """End all children at the same time and refuse new ones. Takes no longer than the deadlines of one child."""
        self._ending = True
        try:
            async with asyncio.TaskGroup() as group:
                for child in self._live:
                    group.create_task(child.close(), name=f"{child.peer}:close")
        finally:
            self.kill()
            self._watchdog.close()

    def kill(self) -> None:
        """Send SIGKILL to the groups of all children, without an event loop."""
        for child in self._live:
            child.kill()

    async def __aenter__(self) -> Self:
        atexit.register(self.kill)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        finally:
            atexit.unregister(self.kill)
