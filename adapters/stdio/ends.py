"""The read end and the write end of a pipe on the event loop, or of a file, socket or terminal in its place.

asyncio's own pipe transports refuse files. They mistake a readable terminal or socket for a pipe whose reader is gone.
They set O_NONBLOCK on a descriptor that other processes may share. uvloop's give a child sockets, which cannot be
opened as /dev/stdin. So these ends use only `add_reader` and `add_writer`, and behave the same on both loops.

An end that other processes share (our own stdin and stdout) is *patient*: its flags stay unchanged. It is read only
when there is data, and written only when there is room, in pieces that a pipe with room takes without blocking.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

from dragoman.adapters.base import do_nothing
from dragoman.adapters.meter import Meter

READ_SIZE = 64 * 1024  # the capacity of a Linux pipe
REST = 16  # reads after a child has exited: a full pipe; bounded, as a process that inherited it may write on
PIECE = 4096  # a pipe that polls as writable has a page free (pipe(7): PIPE_BUF); sockets have more


class File(Protocol):
    """An open unbuffered file, as `open(..., buffering=0)` and Popen return it."""

    def fileno(self) -> int: ...
    def close(self) -> None: ...


class ReadEnd:
    """Passes what it reads to `take`, and calls `ended` once at the end of the stream; owns its file."""

    def __init__(self, file: File, take: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        self.closed = False
        self._file = file
        self._fd = file.fileno()
        self._take = take
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._reading = False
        self._again: asyncio.Handle | None = None

    def resume(self) -> None:
        """Start or continue reading."""
        if self._reading or self.closed:
            return
        self._reading = True
        try:
            with _flags_kept(self._fd):
                self._loop.add_reader(self._fd, self.read)
        except PermissionError:  # epoll refuses files and /dev/null, which are always ready
            self._again = self._loop.call_soon(self._read_file)

    def pause(self) -> None:
        """Stop reading. Unread data stays in the kernel, so that the writer waits."""
        if not self._reading:
            return
        self._reading = False
        if self._again is None:
            self._loop.remove_reader(self._fd)
        else:
            self._again.cancel()
            self._again = None

    def read(self) -> bool:
        """Read once and return True if there was data."""
        try:
            data = os.read(self._fd, READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:  # a terminal that was hung up, a socket that was reset
            data = b""
        if data:
            self._take(data)
        else:
            self.close()
        return bool(data)

    def close_after_rest(self) -> None:
        """Read what has arrived, in a bounded number of reads that never wait, and close."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        for _ in range(REST):
            if self.closed or not poll.poll(0) or not self.read():
                break
        self.close()

    def close(self) -> None:
        """Stop reading and close the file; idempotent."""
        if not self.closed:
            self.pause()
            self.closed = True
            self._file.close()
            self._ended()
            self._take = self._ended = do_nothing  # the owner is freed without the garbage collector

    def _read_file(self) -> None:
        if self.read() and self._reading:
            self._again = self._loop.call_soon(self._read_file)


class WriteEnd:
    """Writes at once what the kernel takes and queues the rest; owns its file.

    Above `high` queued bytes, `wait_writable` waits until a quarter of them is left, as asyncio does. Meanwhile `meter`
    counts them. `broken` is called in a later turn of the loop if a write fails.
    """

    def __init__(
        self,
        file: File,
        high: int,
        meter: Meter | None = None,
        *,
        patient: bool,
        broken: Callable[[], None] | None = None,
    ) -> None:
        self._meter = meter or Meter()
        self._counted = 0
        self.closed = False
        self._file = file
        self._fd = file.fileno()
        self._high = high
        self._patient = patient
        self._broken = broken
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLOUT)
        self._loop = asyncio.get_running_loop()
        self._queue: deque[memoryview] = deque()
        self._waiting = 0  # bytes in the queue: written, and not yet taken by the kernel
        self._watched = False
        self._room = asyncio.Event()
        self._room.set()
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def writable(self) -> bool:
        """True if `wait_writable` would neither wait nor fail."""
        return self._room.is_set() and not self.closed

    @property
    def hung_up(self) -> bool:
        """True if no reader is left: a pipe reports this before anything is written."""
        return self.closed or any(event & (select.POLLERR | select.POLLHUP) for _, event in self._poll.poll(0))

    def write(self, data: bytes) -> None:
        """Write the data, or do nothing if the end is closed."""
        if self.closed or not data:
            return
        self._queue.append(memoryview(data))
        self._waiting += len(data)
        if not self._watched:
            self._push()

    async def wait_writable(self) -> None:
        """Wait until the reader keeps up; raise ConnectionError if there is no reader."""
        await self._room.wait()
        if self.closed:
            raise ConnectionResetError("the reader has closed its end")

    async def flushed(self) -> None:
        """Wait until the kernel has taken every byte, or the end is closed."""
        await self._empty.wait()

    def close(self) -> None:
        """Close the file, so that the reader sees EOF. Queued data is dropped; idempotent."""
        if self.closed:
            return
        self._watch(False)
        self.closed = True
        self._queue.clear()
        self._waiting = 0
        self._file.close()
        self._count(0)
        self._room.set()
        self._empty.set()
        self._broken = None  # as above: the owner is freed

    # --------------------------------------------------------------------------------------------------

    def _push(self) -> None:
        try:
            while self._queue and self._write_some(self._queue[0]):
                pass
        except OSError:  # mostly EPIPE: the reader is gone, which ends this direction
            if self._broken is not None:
                self._loop.call_soon(self._broken)
            self.close()
            return
        if self._waiting > self._high:
            self._room.clear()
            self._count(self._waiting)
        elif self._waiting <= self._high // 4:
            self._room.set()
            if self._counted:
                self._count(0)
        if self._queue:
            self._empty.clear()
        else:
            self._empty.set()
        self._watch(bool(self._queue))

    def _count(self, size: int) -> None:
        change, self._counted = size - self._counted, size
        self._meter.add(change)

    def _write_some(self, view: memoryview) -> bool:
        """Write one piece and return True; return False if the kernel has no room."""
        if self._patient and not self._poll.poll(0):
            return False
        try:
            written = os.write(self._fd, view[:PIECE] if self._patient else view)
        except (BlockingIOError, InterruptedError):
            return False
        self._waiting -= written
        if written == len(view):
            self._queue.popleft()
        else:
            self._queue[0] = view[written:]
        return True

    def _watch(self, on: bool) -> None:
        if on is not self._watched:
            self._watched = on
            if on:
                with _flags_kept(self._fd):
                    self._loop.add_writer(self._fd, self._push)
            else:
                self._loop.remove_writer(self._fd)


@contextlib.contextmanager
def _flags_kept(fd: int) -> Iterator[None]:
    """Restore a descriptor's blocking flag: libuv sets O_NONBLOCK, also for processes that share the file."""
    blocking = os.get_blocking(fd)
    try:
        yield
    finally:
        if os.get_blocking(fd) is not blocking:
            os.set_blocking(fd, blocking)
