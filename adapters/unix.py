"""Newline-delimited frames over a Unix stream socket, as client and as server.

One object is the connection: asyncio's protocol on one side, a Transport on the other. Whole reads are split (5 times
cheaper than a StreamReader) and pushed to the link. A peer that closed may have written before: whatever the kernel
still holds is read and given before `run` ends, also when our own write was what found out
(docs/dialects/pod.md, section 11: a parent connects, writes `run` and closes without reading).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import socket
import stat
import struct
import sys
from collections.abc import Sequence
from typing import cast

from dragoman.adapters.arriving import close_server
from dragoman.adapters.base import BACKLOG, Accept, CloseReason, Limits, Sink
from dragoman.adapters.inbound import Inbound
from dragoman.adapters.lines import LineSplitter, join
from dragoman.mappings.errors import ConfigError

__all__ = ["UnixListener", "UnixTransport", "alive", "check_bindable", "check_path", "connect", "listen"]

SUN_PATH = 107 if sys.platform == "linux" else 103  # bytes of a path that fit into sockaddr_un, without its NUL
READ_SIZE = 256 * 1024  # asyncio's own
OWNER_ONLY = 0o177  # umask of a socket: whoever may connect may drive the agent
LISTENS = (0, errno.EAGAIN)  # of a connect; EAGAIN: somebody listens whose backlog is full
PEERCRED = struct.Struct("3i")  # pid, uid, gid: struct ucred of Linux


class UnixTransport(asyncio.Protocol):
    """One connection; made by `connect` and `listen`."""

    def __init__(self, limits: Limits, accept: Accept | None = None) -> None:
        self.peer = "unix"
        self._limits = limits
        self._accept = accept
        self._splitter = LineSplitter(limits.max_message)
        self._inbound = Inbound(limits.receive_high, self._pause, self._read_on)
        self._ended = False  # nothing more will be read
        self._closing = False  # by us
        self._writable = asyncio.Event()
        self._lost = asyncio.Event()
        self._writable.set()

    async def run(self, sink: Sink) -> None:
        with self._inbound.feeding(sink) as over:
            await over

    def resume(self) -> None:
        self._inbound.resume()

    async def send(self, frames: Sequence[bytes]) -> None:
        await self._kept_up()
        self._transport.write(join(frames))
        await self._kept_up()

    def try_send(self, frames: Sequence[bytes]) -> bool:
        if not self._writable.is_set() or self._transport.is_closing():
            return False
        self._transport.write(join(frames))
        return True

    def peer_can_read(self) -> bool:
        return not self._transport.is_closing() and not _hung_up(self._transport.get_extra_info("socket").fileno())

    async def close(self, reason: CloseReason = CloseReason.DONE, text: str = "") -> None:
        self._closing = True
        self._transport.close()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._limits.close_deadline):
                    await self._lost.wait()
        finally:
            if not self._lost.is_set():
                self._transport.abort()
        await self._lost.wait()

    async def _kept_up(self) -> None:
        await self._writable.wait()
        if self._transport.is_closing():
            raise ConnectionResetError(f"{self.peer} is gone")

    # -- called by the event loop ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one without inheriting from it
        self._transport.set_write_buffer_limits(high=self._limits.send_high)
        self.peer = _credentials(transport.get_extra_info("socket"))
        if self._accept is not None:
            self._accept(self)

    def data_received(self, data: bytes) -> None:
        frames = self._splitter.feed(data)
        if frames:
            self._inbound.push(frames)

    def eof_received(self) -> bool:
        self._end()
        return True  # it may still read: `socat` with its input at an end waits for the answers

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._ended and not self._closing:
            self._read_rest()
        self._end()
        self._lost.set()
        self._writable.set()

    # --------------------------------------------------------------------------------------------------

    def _pause(self) -> None:
        if not self._ended and not self._transport.is_closing():
            self._transport.pause_reading()

    def _read_on(self) -> None:
        if not self._ended and not self._transport.is_closing():
            self._transport.resume_reading()

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            rest = self._splitter.finish()
            if rest:
                self._inbound.push(rest)
            self._inbound.end()

    def _read_rest(self) -> None:
        """Read what a gone peer left in the kernel; bounded, for it may have closed its reading side alone."""
        descriptor = self._transport.get_extra_info("socket").fileno()
        room = max(self._limits.receive_high, READ_SIZE)
        with contextlib.suppress(OSError):
            while room > 0 and (data := os.read(descriptor, READ_SIZE)):
                room -= len(data)
                self.data_received(data)


class UnixListener:
    """A listening socket and its file."""

    def __init__(self, path: str, server: asyncio.AbstractServer) -> None:
        self.address = f"unix:{path}"
        self._path = path
        self._server = server
        self._file = _file(path)

    async def close(self) -> None:
        # The file goes first: while we still listen nobody can take it for stale and put another in its place.
        if self._file is not None and self._file == _file(self._path):
            os.unlink(self._path)
        self._file = None
        await close_server(self._server)


async def connect(path: str, limits: Limits) -> UnixTransport:
    """Dial the socket at `path`; OSError says which one and why."""
    if _too_long(path):
        raise OSError(errno.ENAMETOOLONG, f"a socket's path has at most {SUN_PATH} bytes", path)
    try:
        _, transport = await asyncio.get_running_loop().create_unix_connection(lambda: UnixTransport(limits), path)
    except OSError as error:
        number = error.errno or errno.EIO
        raise OSError(number, os.strerror(number), path) from error
    return transport


def _hung_up(descriptor: int) -> bool:
    """Whether the peer has closed both directions: the kernel knows before anybody writes."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return bool(poll.poll(0))


def alive(path: str) -> bool:
    """Whether somebody listens at `path`: the kernel says so at once, nothing is sent."""
    return not _too_long(path) and _probe(path) in LISTENS


async def listen(path: str, limits: Limits, accept: Accept) -> UnixListener:
    """Listen at `path`, for its owner alone. A stale file is replaced, a live one is refused: OSError EADDRINUSE."""
    bound = _bind(path)
    try:
        server = await asyncio.get_running_loop().create_unix_server(
            lambda: UnixTransport(limits, accept), sock=bound, backlog=BACKLOG
        )
    except BaseException:
        bound.close()
        raise
    return UnixListener(path, server)


def check_path(path: str) -> None:
    """Refuse a path that no socket can have: ConfigError says why."""
    if _too_long(path):
        raise ConfigError(f"{path}: a socket's path has at most {SUN_PATH} bytes; choose a shorter directory")
    if "\0" in path:
        raise ConfigError(f"{path!r}: a socket's path has no NUL in it")


def check_bindable(path: str) -> None:
    """Refuse a path at which no socket can be made, as far as one can tell without making it."""
    check_path(path)
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise ConfigError(f"{path}: the directory of the socket does not exist; create it first")


def _bind(path: str) -> socket.socket:
    check_bindable(path)
    _remove_stale(path)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(OWNER_ONLY)  # and not chmod afterwards, which leaves a moment in which anybody may connect
    try:
        bound.bind(path)
    except OSError as error:
        bound.close()
        raise OSError(error.errno, error.strerror, path) from error
    finally:
        os.umask(mask)
    return bound


def _remove_stale(path: str) -> None:
    """Make room for a socket: unlink one that nobody accepts at, refuse everything else that is there."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError(errno.EEXIST, "there is a file here that is not a socket", path)
    answer = _probe(path)
    if answer == errno.ECONNREFUSED:
        os.unlink(path)
    elif answer in LISTENS:
        raise OSError(errno.EADDRINUSE, "another process listens here", path)
    elif answer != errno.ENOENT:
        raise OSError(answer, os.strerror(answer), path)


def _probe(path: str) -> int:
    """What a connect says, as an errno."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        return probe.connect_ex(path)


def _too_long(path: str) -> bool:
    return len(os.fsencode(path)) > SUN_PATH


def _file(path: str) -> tuple[int, int] | None:
    """Which file this is. A bound socket keeps its inode, so nobody else's can have its number."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _credentials(connection: socket.socket) -> str:
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:  # macOS has LOCAL_PEERCRED instead, without the process
        return "unix"
    pid, uid, _ = PEERCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, option, PEERCRED.size))
    return f"uid={uid} pid={pid}"
