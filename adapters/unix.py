"""Newline-delimited frames over a Unix stream socket, as client and as server.

UnixTransport is both asyncio's protocol and a Transport. Whole reads are split (5 times cheaper than a StreamReader)
and pushed to the link. A peer may write and then close at once, for example a pod's parent that connects, writes `run`
and closes without reading (docs/dialects/pod.md, section 11). So everything that the kernel still holds is read and
delivered before `run` ends, even if our own failed write revealed the close.

A peer that is refused may not have written yet. If we closed at once, its write would fail, and many clients then never
read why. So such a connection lingers: we end our direction and drop what still comes, until the peer closes.
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
from collections.abc import Callable, Sequence
from typing import Any, cast

from msgspec import Struct

from dragoman.adapters.base import BACKLOG, CloseReason, PeerFacts, Sink, TransportLimits, connect_reason
from dragoman.adapters.closing import close_server
from dragoman.adapters.flag import Flag
from dragoman.adapters.inbound import Inbound
from dragoman.adapters.lines import LINES_AT_ONCE, LineSplitter, line_buffers
from dragoman.adapters.meter import Meter
from dragoman.mappings.errors import ConfigError

SUN_PATH = 107 if sys.platform == "linux" else 103  # bytes of a path that fit into sockaddr_un, without its NUL
READ_SIZE = 256 * 1024  # the size that asyncio uses
LISTENS = (0, errno.EAGAIN)  # results of connect at a live listener; EAGAIN: its backlog is full
KEEP_FILE: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}  # UnixListener removes it
LINGER = 1.0  # seconds that a refused peer has to write, to read the refusal and to close
LINGER_BYTES = 1 << 20  # bytes that it may still write: as many as a command has (`max_command`)
LINGERING_MAX = 16  # refused connections of a listener that linger at once; further ones are closed at once
TOO_LONG = f"the path of a socket has at most {SUN_PATH} bytes; choose a shorter folder"
NO_STREAM = "this is not a stream socket; correct the path"
UNREACHABLE = {
    errno.ENOENT: "the socket does not exist; start the backend, or correct the path",
    errno.ENOTDIR: "a part of the path is not a folder; correct the path",
    errno.EACCES: "this user may not connect; run as the socket's owner, or change its mode",
    errno.ENOTSOCK: NO_STREAM,
    errno.EPROTOTYPE: NO_STREAM,
}
"""Number of an error of `connect` -> what is wrong with the path, and what to do."""
PEERCRED = struct.Struct("3i")  # pid, uid, gid: struct ucred of Linux


class UnixTransport(asyncio.Protocol):
    """One connection over a Unix socket; created by `connect` and `listen`.

    `facts` name the process at the other end. `lingering` has the refused connections of the listener that linger.
    """

    __slots__ = (
        "_accept",
        "_blocked",
        "_closing",
        "_discarding",
        "_ended",
        "_inbound",
        "_limits",
        "_lingering",
        "_lost",
        "_room",
        "_served",
        "_splitter",
        "_transport",
        "_unsent",
        "facts",
        "meter",
        "peer",
    )

    def __init__(
        self,
        limits: TransportLimits,
        accept: Callable[[UnixTransport], None] | None = None,
        lingering: set[UnixTransport] | None = None,
    ) -> None:
        self.peer, self.facts = "unix", PeerFacts()
        self._limits = limits
        self._accept = accept
        self._lingering = lingering
        self._served = False  # `run` was called
        self._room = 0  # bytes that a refused peer may still write, 0 if it is none
        self.meter = Meter()
        self._splitter = LineSplitter(limits.max_message, self.meter, LINES_AT_ONCE)
        self._inbound = Inbound(limits.receive_high, self._pause, self._read_on, self.meter, self._splitter)
        self._discarding = False  # what still arrives is dropped
        self._unsent = 0  # bytes counted as waiting for the peer to read
        self._ended = False  # reading is over
        self._closing = False  # our side closed the connection
        self._blocked: Flag | None = None  # set once the peer reads again; None while it keeps up
        self._lost = Flag()

    async def run(self, sink: Sink) -> None:
        self._served = True
        with self._inbound.feeding(sink) as over:
            await over

    def resume(self) -> None:
        self._inbound.resume()

    async def send(self, frames: Sequence[bytes]) -> None:
        await self._wait_writable()
        self.try_send(frames)
        await self._wait_writable()

    def try_send(self, frames: Sequence[bytes]) -> bool:
        if self._blocked is not None or self._transport.is_closing():
            return False
        for buffer in line_buffers(frames):  # `writelines` of asyncio never pauses us before 3.13.2 (CVE-2024-12254)
            self._transport.write(buffer)
        if self._blocked is not None:
            self._count_unsent()  # type: ignore[unreachable]  # mypy does not know that the write may have paused us
        return True

    def peer_can_read(self) -> bool:
        return not self._transport.is_closing() and not _hung_up(self._transport.get_extra_info("socket").fileno())

    def discard(self) -> None:
        self._discarding = True
        self._splitter.clear()
        self._inbound.clear()

    async def close(self, reason: CloseReason = CloseReason.DONE, text: str = "") -> None:
        self._closing = True
        deadline = asyncio.get_running_loop().call_later(self._limits.close_deadline, self._transport.abort)
        try:
            if reason is CloseReason.FULL and not self._served and self._lingering is not None:
                await self._linger(self._lingering)
            self._transport.close()
            await self._lost.wait()
        finally:
            deadline.cancel()
            if not self._lost.is_set:
                self._transport.abort()

    async def _linger(self, lingering: set[UnixTransport]) -> None:
        """End our direction and drop what a refused peer writes, until it closes; both are bounded."""
        if len(lingering) >= LINGERING_MAX or self._transport.is_closing():
            return
        lingering.add(self)
        self._room = LINGER_BYTES
        self.discard()
        try:
            self._transport.write_eof()
            if self._ended:  # it has closed its own direction
                return
            if not self._transport.is_reading():
                self._transport.resume_reading()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LINGER):
                    await self._lost.wait()
        finally:
            lingering.discard(self)

    async def _wait_writable(self) -> None:
        while self._blocked is not None:
            await self._blocked.wait()
        if self._transport.is_closing():
            raise ConnectionResetError(f"{self.peer} is gone")

    def _count_unsent(self) -> None:
        self._unsent = self._transport.get_write_buffer_size()  # nothing is added to it until it has drained
        self.meter.add(self._unsent)

    # -- called by the event loop ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport does not inherit from it
        self._transport.set_write_buffer_limits(high=self._limits.send_high)
        self.peer, self.facts = _credentials(transport.get_extra_info("socket"))
        if self._accept is not None:
            self._accept(self)

    def data_received(self, data: bytes) -> None:
        if self._discarding:
            if 0 < self._room <= len(data):
                self._transport.close()
            self._room = max(0, self._room - len(data))
            return
        frames = self._splitter.feed(data)
        if frames or self._splitter.unsplit:
            self._inbound.push(frames)

    def eof_received(self) -> bool:
        self._end()
        if self._room:
            self._transport.close()
        return True  # the peer may still read: `socat` waits for answers after EOF of its input

    def pause_writing(self) -> None:
        self._blocked = Flag()

    def resume_writing(self) -> None:
        blocked, self._blocked = self._blocked, None
        if blocked is not None:
            blocked.set()
        self.meter.add(-self._unsent)
        self._unsent = 0

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and not isinstance(exc, OSError):  # an error in this process, such as MemoryError
            self._splitter.clear()
            self._ended = True
            self._inbound.end()
        elif not self._ended and not self._closing:
            self._read_rest()
        self._end()
        self._lost.set()
        self.resume_writing()

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
            self.data_received(b"\n")  # an unterminated last line counts
            self._inbound.end()

    def _read_rest(self) -> None:
        """Read the rest of a closed peer's data; bounded, because the peer may have closed only its reading side."""
        descriptor = self._transport.get_extra_info("socket").fileno()
        room = max(self._limits.receive_high, READ_SIZE)
        with contextlib.suppress(OSError):
            while room > 0 and (data := os.read(descriptor, READ_SIZE)):
                room -= len(data)
                self.data_received(data)


class SocketFile(Struct, frozen=True, kw_only=True):
    """The mode, owner and group of a listening socket's file. -1 leaves the owner or group."""

    mode: int = 0o600
    uid: int = -1
    gid: int = -1


class UnixListener:
    """A listening Unix socket and its file, which stays if somebody else made it."""

    def __init__(self, path: str, server: asyncio.Server, *, owns_file: bool) -> None:
        self.address = f"unix:{path}"
        self._path = path
        self._server = server
        self._file = file_identity(path) if owns_file else None

    @property
    def is_reachable(self) -> bool:
        """Return False if the file was removed or replaced: no client can connect any more."""
        return self._file is None or self._file == file_identity(self._path)

    async def close(self) -> None:
        # Unlink the file first: while we still listen, no other process can mistake it for stale and replace it.
        if self._file is not None and self.is_reachable:
            with contextlib.suppress(OSError):  # a file system that is read-only now: the next listener replaces it
                os.unlink(self._path)
        self._file = None
        await close_server(self._server)


OWN = SocketFile()


async def connect(path: str, limits: TransportLimits) -> UnixTransport:
    """Connect to the socket at `path`; raise OSError with the path and the reason."""
    if _too_long(path):
        raise OSError(errno.ENAMETOOLONG, TOO_LONG, path)
    try:
        _, transport = await asyncio.get_running_loop().create_unix_connection(lambda: UnixTransport(limits), path)
    except OSError as error:
        number = error.errno or errno.EIO
        raise OSError(number, _connect_reason(number, path), path) from error
    return transport


def _connect_reason(number: int, path: str) -> str:
    if number == errno.ECONNREFUSED and os.path.isfile(path):
        return NO_STREAM
    return UNREACHABLE.get(number) or connect_reason(number)


def _hung_up(descriptor: int) -> bool:
    """Return True if the peer has closed both directions, without writing to it."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return bool(poll.poll(0))


def alive(path: str) -> bool:
    """Return True if a process listens at `path`. Nothing is sent."""
    return not _too_long(path) and _probe(path) in LISTENS


async def listen(
    path: str,
    limits: TransportLimits,
    accept: Callable[[UnixTransport], None],
    file: SocketFile = OWN,
    inherited: socket.socket | None = None,
) -> UnixListener:
    """Listen at `path`, by default for the owner alone, or on an `inherited` socket that is bound there.

    A stale file is replaced; a live one raises OSError EADDRINUSE. The file is never open to more users than `file`
    says: it has its mode from the beginning, and nobody can connect before it has its owner and group. If somebody puts
    a symbolic link in its place, the file behind the link is not changed.
    """
    bound = inherited if inherited is not None else bind_socket(path, file.mode)
    try:
        if inherited is None and file != OWN:
            os.chown(path, file.uid, file.gid, follow_symlinks=False)
        lingering: set[UnixTransport] = set()
        server = await asyncio.get_running_loop().create_unix_server(
            lambda: UnixTransport(limits, accept, lingering), sock=bound, backlog=BACKLOG, **KEEP_FILE
        )
    except BaseException as error:
        bound.close()
        if inherited is None:
            os.unlink(path)
        if isinstance(error, PermissionError):
            raise OSError(error.errno, "its owner or group cannot be changed by this user", path) from error
        raise
    return UnixListener(path, server, owns_file=inherited is None)


def check_path(path: str) -> None:
    """Raise ConfigError for a path that no socket can have."""
    if _too_long(path):
        raise ConfigError(f"{path}: {TOO_LONG}")
    if "\0" in path:
        raise ConfigError(f"{path!r}: the path of a socket must not contain a NUL character")


def check_bindable(path: str) -> None:
    """Raise ConfigError for a path where no socket can be created, as far as that is known without creating it."""
    check_path(path)
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise ConfigError(f"{path}: the socket's directory does not exist; create it first")


def bind_socket(path: str, mode: int = 0o600) -> socket.socket:
    """Return a socket bound to `path`, with this mode. A stale file is replaced; raise OSError for a live one."""
    check_bindable(path)
    _remove_stale(path)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o777 & ~mode)  # a chmod of the path could change another file, which a link puts there
    try:
        bound.bind(path)
    except OSError as error:
        bound.close()
        raise OSError(error.errno, error.strerror, path) from error
    finally:
        os.umask(mask)
    return bound


def _remove_stale(path: str) -> None:
    """Unlink a socket file without a listener; raise OSError for any other file at `path`."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError(
            errno.EEXIST, "a file that is not a socket exists here; choose another path, or remove the file", path
        )
    answer = _probe(path)
    if answer == errno.ECONNREFUSED:
        os.unlink(path)
    elif answer in LISTENS:
        raise OSError(errno.EADDRINUSE, "another process listens here; stop it, or choose another path", path)
    elif answer != errno.ENOENT:
        raise OSError(answer, os.strerror(answer), path)


def _probe(path: str) -> int:
    """Return the errno of a connect to `path`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        return probe.connect_ex(path)


def _too_long(path: str) -> bool:
    return len(os.fsencode(path)) > SUN_PATH


def file_identity(path: str) -> tuple[int, int] | None:
    """Return the identity (device, inode) of the file at `path`. A bound socket keeps its inode, so no other file has
    its number.
    """
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _credentials(connection: socket.socket) -> tuple[str, PeerFacts]:
    """Return the name of the peer for logs, and what the kernel knows of its process."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:  # macOS has LOCAL_PEERCRED instead, without the process
        return "unix", PeerFacts()
    pid, uid, gid = PEERCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, option, PEERCRED.size))
    return f"uid={uid} pid={pid}", PeerFacts(address=f"uid={uid}", uid=uid, gid=gid)
