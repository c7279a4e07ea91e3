"""Lines over Unix stream sockets, as client and as server: paths, socket files, and the users at the other end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import stat
import struct
import sys
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from dragoman.adapters.base import BACKLOG, PeerFacts, TransportLimits, connect_reason
from dragoman.adapters.line_transport import LineTransport
from dragoman.adapters.listening import close_server
from dragoman.mappings.errors import ConfigError

SUN_PATH = 107 if sys.platform == "linux" else 103  # bytes of a path that fit into sockaddr_un, without its NUL
LISTENS = (0, errno.EAGAIN)  # results of connect at a live listener; EAGAIN: its backlog is full
KEEP_FILE: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}  # UnixListener removes it
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


class UnixTransport(LineTransport):
    """Carries lines over one Unix socket. Its `facts` have the user and the group of the peer's process."""

    __slots__ = ()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.peer = "unix"
        option = getattr(socket, "SO_PEERCRED", None)
        if option is not None:  # macOS has LOCAL_PEERCRED instead, without the process
            credentials = transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, option, PEERCRED.size)
            pid, uid, gid = PEERCRED.unpack(credentials)
            self.peer, self.facts = f"uid={uid} pid={pid}", PeerFacts(address=f"uid={uid}", uid=uid, gid=gid)
        super().connection_made(transport)


class SocketFile(Struct, frozen=True, kw_only=True):
    """The mode, owner and group of a listening socket's file. -1 leaves the owner or group."""

    mode: int = 0o600
    uid: int = -1
    gid: int = -1


class UnixListener:
    """A listening Unix socket and its file, which is removed at the end unless the socket was inherited."""

    certificate_end = None

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
    if number == errno.ECONNREFUSED and (os.path.isfile(path) or os.path.isdir(path)):
        return NO_STREAM
    return UNREACHABLE.get(number) or connect_reason(number)


def alive(path: str) -> bool:
    """Return True if a process listens at `path`. Nothing is sent."""
    return not _too_long(path) and _probe(path) in LISTENS


async def listen(
    path: str,
    limits: TransportLimits,
    accept: Callable[[LineTransport], None],
    file: SocketFile = OWN,
    inherited: socket.socket | None = None,
) -> UnixListener:
    """Listen at `path`, by default for the owner alone, or on an `inherited` socket that is bound there.

    A stale file is replaced; a live one raises OSError EADDRINUSE. The file is never open to more users than `file`
    says: it has its mode from the beginning, and nobody can connect before it has its owner and group. If another
    process puts a symbolic link in its place, the file behind the link is not changed.
    """
    bound = inherited if inherited is not None else bind_socket(path, file.mode)
    try:
        if inherited is None and file != OWN:
            os.chown(path, file.uid, file.gid, follow_symlinks=False)
        lingering: set[LineTransport] = set()
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
