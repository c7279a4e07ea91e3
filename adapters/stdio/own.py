"""The stdin and stdout of this process as a transport to the process that started it.

Only protocol frames may reach stdout, and nothing else may read stdin. So both are moved while the transport is open:
descriptor 1 leads to stderr, also for `print`, C libraries and children, and descriptor 0 to /dev/null. They may be
pipes, files, sockets or a terminal, and other processes may share them, so their flags are left unchanged.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator

from dragoman.adapters.base import Accept, CloseReason, TransportLimits
from dragoman.adapters.stdio.stream import LineStream
from dragoman.mappings.errors import ConfigError

STDIN, STDOUT, STDERR = 0, 1, 2

_taken = threading.Lock()  # a process has one stdin and one stdout


class OwnTransport(LineStream):
    """The transport over our stdin and stdout. `run` ends at EOF of stdin; `send` fails once stdout has no reader.

    Then `run` ends, too, after what has arrived: stdin may stay open forever, although no answer could be delivered.
    """

    def __init__(self, limits: TransportLimits) -> None:
        self._undo = contextlib.ExitStack()
        self.peer = f"stdio pid={os.getppid()}"
        with contextlib.ExitStack() as undo:
            source, sink = undo.enter_context(_moved())
            super().__init__(os.fdopen(source, "rb", 0), os.fdopen(sink, "wb", 0), limits, patient=True)
            self._undo = undo.pop_all()

    def _lose_reader(self) -> None:
        self._in.close_after_rest()

    async def close(self, reason: CloseReason = CloseReason.DONE, text: str = "") -> None:
        """Flush within the close deadline and restore stdin and stdout; idempotent."""
        try:
            await self._finish_writing()
        finally:
            self._in.close()
            self._undo.close()


class OwnListener:
    """The listener for the one peer that exists from the beginning."""

    address = "stdio:"
    is_reachable = True
    certificate_end = None

    async def close(self) -> None:
        """Do nothing: no further peer could connect, and the link closes the transport."""


async def listen(limits: TransportLimits, accept: Accept) -> OwnListener:
    """Take over our stdin and stdout; raise ConfigError if they are closed or another listener has them."""
    accept(OwnTransport(limits))
    return OwnListener()


@contextlib.contextmanager
def _moved() -> Iterator[tuple[int, int]]:
    """Yield duplicates of descriptors 0 and 1, which the caller must close; restore 0 and 1 at the end."""
    for number, name in ((STDIN, "stdin"), (STDOUT, "stdout")):
        if not _is_open(number):
            raise ConfigError(f"stdio: our own {name} is closed; the process that starts dragoman must keep it open")
    if not _taken.acquire(blocking=False):
        raise ConfigError("stdio: only one listener can use stdin and stdout")
    if not _is_open(STDERR):
        os.open(os.devnull, os.O_WRONLY)  # takes the lowest free number, 2, so that no file of ours becomes stderr
    source, sink = os.dup(STDIN), _private(STDOUT)
    kept = os.dup(STDIN), os.dup(STDOUT)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, STDIN)
    os.close(nothing)
    os.dup2(STDERR, STDOUT)
    try:
        yield source, sink
    finally:
        with contextlib.suppress(AttributeError, OSError, ValueError):  # buffered prints must still go to stderr
            sys.stdout.flush()
        for number, original in enumerate(kept):
            os.dup2(original, number)
            os.close(original)
        _taken.release()


def _private(number: int) -> int:
    """Return another descriptor for the same file. A terminal is reopened: if it is stopped with Ctrl-S it must not
    block us.
    """
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
