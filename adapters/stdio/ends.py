"""The two ends of a pipe on the event loop, and of whatever else may stand in a pipe's place.

asyncio's own pipe transports refuse files, take a terminal or socket that can be read for a pipe whose reader is gone,
and set O_NONBLOCK on a descriptor that may be another process's too; uvloop's give a child sockets, which cannot be
opened as /dev/stdin. So these ends wait with `add_reader` and `add_writer` alone, and behave alike on both loops.

An end that is not ours alone (our own stdin and stdout, which a shell or our stderr may share) is *patient*: its flags
stay as they are, it is read only when there is something, and written only when there is room, in pieces that a pipe
with room takes without blocking.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

__all__ = ["READ_SIZE", "REST", "File", "ReadEnd", "WriteEnd"]

READ_SIZE = 64 * 1024  # all that a pipe of Linux holds
REST = 16  # reads once a child has ended: all that a pipe can hold, and whoever inherited it may write for ever
PIECE = 4096  # a pipe that polls as writable has a page free (pipe(7): PIPE_BUF); sockets have more


class File(Protocol):
    """An open file, as `open(..., buffering=0)` and Popen give it."""

    def fileno(self) -> int: ...
    def close(self) -> None: ...


class ReadEnd:
    """Gives what it reads to `take`, and tells `ended` once when there will be no more; owns its file."""

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
        """Read whatever comes."""
        if self._reading or self.closed:
            return
        self._reading = True
        try:
            with _flags_kept(self._fd):
                self._loop.add_reader(self._fd, self.read)
        except PermissionError:  # epoll's word for a file or /dev/null, which are always ready
            self._again = self._loop.call_soon(self._read_file)

    def pause(self) -> None:
        """Leave in the kernel what is there: the writer waits."""
        if not self._reading:
            return
        self._reading = False
        if self._again is None:
            self._loop.remove_reader(self._fd)
        else:
            self._again.cancel()
            self._again = None

    def read(self) -> bool:
        """Read once; whether there was something."""
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

    def close(self) -> None:
        """Read no more; idempotent."""
        if not self.closed:
            self.pause()
            self.closed = True
            self._file.close()
            self._ended()

    def _read_file(self) -> None:
        if self.read() and self._reading:
            self._again = self._loop.call_soon(self._read_file)


class WriteEnd:
    """Writes at once what the kernel takes and keeps the rest; owns its file.

    Past `high` bytes that wait, `kept_up` waits until a quarter of them is left, which is what asyncio does.
    """

    def __init__(self, file: File, high: int, *, patient: bool = False) -> None:
        self.closed = False
        self._file = file
        self._fd = file.fileno()
        self._high = high
        self._patient = patient
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLOUT)
        self._loop = asyncio.get_running_loop()
        self._queue: deque[memoryview] = deque()
        self._waiting = 0  # bytes in the queue
        self._watched = False
        self._room = asyncio.Event()
        self._room.set()
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def waiting(self) -> int:
        """Bytes that were written and that the kernel has not taken."""
        return self._waiting

    @property
    def roomy(self) -> bool:
        """Whether `kept_up` would neither wait nor fail."""
        return self._room.is_set() and not self.closed

    @property
    def hung_up(self) -> bool:
        """Whether nobody can read any more: a pipe knows before anybody writes."""
        return self.closed or any(event & (select.POLLERR | select.POLLHUP) for _, event in self._poll.poll(0))

    def write(self, data: bytes) -> None:
        """Write; nothing happens once it is closed."""
        if self.closed or not data:
            return
        self._queue.append(memoryview(data))
        self._waiting += len(data)
        if not self._watched:
            self._push()

    async def kept_up(self) -> None:
        """Wait until the reader keeps up; ConnectionError when there is none any more."""
        await self._room.wait()
        if self.closed:
            raise ConnectionResetError("nobody reads any more")

    async def flushed(self) -> None:
        """Wait until the kernel has everything, or the end is closed."""
        await self._empty.wait()

    def close(self) -> None:
        """The reader sees the end of the stream; what waits is dropped; idempotent."""
        if self.closed:
            return
        self._watch(False)
        self.closed = True
        self._queue.clear()
        self._waiting = 0
        self._file.close()
        self._room.set()
        self._empty.set()

    # --------------------------------------------------------------------------------------------------

    def _push(self) -> None:
        try:
            while self._queue and self._write_some(self._queue[0]):
                pass
        except OSError:  # EPIPE, mostly: the reader is gone, and that is the end of this direction
            self.close()
            return
        if self._waiting > self._high:
            self._room.clear()
        elif self._waiting <= self._high // 4:
            self._room.set()
        if self._queue:
            self._empty.clear()
        else:
            self._empty.set()
        self._watch(bool(self._queue))

    def _write_some(self, view: memoryview) -> bool:
        """Write a piece; False when the kernel has no room."""
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
    """Undo what libuv does to a descriptor that it watches: it sets O_NONBLOCK, also for everybody who shares it."""
    blocking = os.get_blocking(fd)
    try:
        yield
    finally:
        if os.get_blocking(fd) is not blocking:
            os.set_blocking(fd, blocking)
