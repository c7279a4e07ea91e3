"""Our own stdin and stdout as the one peer that spawned us.

Nothing but protocol may reach stdout, and nobody else may read stdin, so both are moved away while the transport is
open: descriptor 1 leads to stderr then, also for `print`, for C libraries and for children, and descriptor 0 to
/dev/null. They may be pipes, files, sockets or a terminal, and shared with other processes: their flags are left alone.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

from dragoman.adapters.base import Accept, CloseReason, Limits
from dragoman.adapters.stdio.stream import LineStream
from dragoman.mappings.errors import ConfigError

__all__ = ["OwnListener", "OwnTransport", "listen"]

STDIN, STDOUT, STDERR = 0, 1, 2

_taken = threading.Lock()  # a process has one stdin and one stdout


class OwnTransport(LineStream):
    """Whoever holds the other ends; `run` ends with stdin, `send` fails once nobody reads stdout."""

    def __init__(self, limits: Limits) -> None:
        self._undo = contextlib.ExitStack()
        self.peer = f"stdio pid={os.getppid()}"
        with contextlib.ExitStack() as undo:
            source, sink = undo.enter_context(_moved())
            super().__init__(os.fdopen(source, "rb", 0), os.fdopen(sink, "wb", 0), limits, patient=True)
            self._undo = undo.pop_all()

    async def close(self, reason: CloseReason = CloseReason.DONE, text: str = "") -> None:
        """Write what waits within the close deadline, and give stdin and stdout back; idempotent."""
        try:
            await self._finish()
        finally:
            self._in.close()
            self._undo.close()


class OwnListener:
    """There is one peer, and it is there from the beginning."""

    address = "stdio:"

    async def close(self) -> None:
        """Nobody else could come; the transport stays until its link closes it."""


async def listen(limits: Limits, accept: Accept) -> OwnListener:
    """Take our own stdin and stdout; ConfigError when they are closed, or taken by another listener."""
    accept(OwnTransport(limits))
    return OwnListener()


@contextlib.contextmanager
def _moved() -> Iterator[tuple[int, int]]:
    """Other descriptors for what 0 and 1 are: the caller's to close; 0 and 1 come back at the end."""
    for number, name in ((STDIN, "stdin"), (STDOUT, "stdout")):
        if not _is_open(number):
            raise ConfigError(f"stdio: our own {name} is closed; whoever spawns us must keep it open")
    if not _taken.acquire(blocking=False):
        raise ConfigError("stdio: there is one stdin and one stdout, so only one listener can have them")
    if not _is_open(STDERR):
        os.open(os.devnull, os.O_WRONLY)  # the lowest that is free, which is 2: nothing of ours may be taken for stderr
    source, sink = os.dup(STDIN), _private(STDOUT)
    kept = os.dup(STDIN), os.dup(STDOUT)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, STDIN)
    os.close(nothing)
    os.dup2(STDERR, STDOUT)
    try:
        yield source, sink
    finally:
        with contextlib.suppress(AttributeError, OSError, ValueError):  # what was printed meanwhile belongs to stderr
            sys.stdout.flush()
        for number, original in enumerate(kept):
            os.dup2(original, number)
            os.close(original)
        _taken.release()


def _private(number: int) -> int:
    """Another descriptor for the same. A terminal is opened anew: stopped with Ctrl-S, it would stop us all."""
    if os.isatty(number):
        with contextlib.suppress(OSError):
            return os.open(os.ttyname(number), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
    return os.dup(number)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
