"""Find or become the primary of a pando project directory (docs/dialects/pando.md, section 1).

The primary is the process that holds a flock on `.pando/ipc.lock`; the existence of the file means nothing. Others find
the primary's ports in this file, in the registry of instances, or derive them from the path. None of these proves that
a process listens, so a client tries to connect.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog
from msgspec import Struct

from dragoman.adapters.base import Listener
from dragoman.gateway.config.source import read_small
from dragoman.gateway.process.private_files import write_file
from dragoman.gateway.public_reason import full_reason
from dragoman.mappings.codec import MALFORMED
from dragoman.mappings.errors import ConfigError

log = structlog.get_logger("dragoman.pando")

INSTANCES = Path("/tmp/pando-instances")  # noqa: S108  # pando's own folder; `_write` guards against other writers
MODE = "proxy"  # the closest of the six modes (docs/dialects/pando.md, section 1.3)

FNV_OFFSET, FNV_PRIME = 0x811C9DC5, 0x01000193
FIRST_PORT, PORTS = 40000, 20000

RECORD_MAX = 64 * 1024  # bytes: a path has 4 KiB
ENTRIES_MAX = 1024  # instances of one machine that are read
TRIES = 16  # attempts to take a lock file that other processes keep deleting

Record = TypeVar("Record", bound="Lock | InstanceRecord")


class Lock(Struct, frozen=True, kw_only=True):
    """The content of `.pando/ipc.lock` (section 1.2)."""

    instance_id: str
    pid: int
    pub_port: int
    rpc_port: int
    started_at: str


class InstanceRecord(Struct, frozen=True, kw_only=True):
    """An entry of the registry (section 1.3)."""

    instance_id: str
    path: str
    pid: int
    pub_port: int
    rpc_port: int
    started_at: str
    mode: str
    is_primary: bool


class Project:
    """A project of which we are the primary; created by `claim`, ended by `release`."""

    def __init__(self, directory: str, descriptor: int, instance_id: str, ports: tuple[int, int], at: int) -> None:
        self.directory = directory
        self.instance_id = instance_id
        self.publish_port, self.call_port = ports
        self._at = at
        self._path = _lock_path(directory)
        self._descriptor = descriptor
        self._entry: Path | None = None

    @classmethod
    def claim(cls, directory: str, instance_id: str, at: int) -> Project:
        """Become the primary of an absolute path. The path is used as written: an extra slash gives other ports.

        `instance_id` is sent in our envelopes; `at` is the time in ns. Raise OSError EADDRINUSE if there is a primary.
        """
        check_directory(directory)
        path = _lock_path(directory)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        project = cls(directory, _locked(path), instance_id, derive_ports(directory), at)
        try:
            project._write_lock()
        except BaseException:
            project.release()
            raise
        return project

    def register(self, instances: Path = INSTANCES) -> None:
        """Add us to the registry once the ports are bound; raise OSError if the registry is not writable."""
        entry = InstanceRecord(
            instance_id=self.instance_id,
            path=_path_text(self.directory),
            pid=os.getpid(),
            pub_port=self.publish_port,
            rpc_port=self.call_port,
            started_at=_time(self._at, local=True),
            mode=MODE,
            is_primary=True,
        )
        instances.mkdir(mode=0o755, exist_ok=True)
        path = instances / f"{self.instance_id}.json"
        write_file(path, _record_text(entry), 0o644)  # any user's pando reads it
        self._entry = path

    def release(self) -> None:
        """Remove the lock file and the registry entry, and release the lock. Idempotent; ignores missing files."""
        if self._entry is not None:
            with contextlib.suppress(OSError):
                self._entry.unlink()
            self._entry = None
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            try:
                # Unlink before releasing the lock: afterwards the file could be the successor's. A process that locks
                # the removed file sees that the path is another file, and tries again.
                if _is_file_at(descriptor, self._path):
                    with contextlib.suppress(OSError):
                        self._path.unlink()
            finally:
                os.close(descriptor)

    def _write_lock(self) -> None:
        record = Lock(
            instance_id=self.instance_id,
            pid=os.getpid(),
            pub_port=self.publish_port,
            rpc_port=self.call_port,
            started_at=_time(self._at),
        )
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, _record_text(record), 0)


class ProjectListener:
    """The listener of a project of which we are the primary. Closing it releases the lock and the registry entry."""

    is_reachable = True
    certificate_end = None

    def __init__(self, project: Project, listener: Listener) -> None:
        self.address = f"dir:{project.directory}"
        self._project = project
        self._listener = listener
        try:
            project.register()
        except OSError as error:  # clients can still find it by its lock file
            log.warning("cannot add the project to the registry of instances", error=full_reason(error))

    async def close(self) -> None:
        """Stop accepting, and stop being the primary."""
        await self._listener.close()
        self._project.release()


def check_directory(directory: str) -> None:
    """Raise ConfigError if a project has no directory, in which its primary keeps the lock file."""
    if not os.path.isdir(directory):
        raise ConfigError(f"{directory}: the project's directory does not exist; create it, or correct the path")


def derive_ports(directory: str) -> tuple[int, int]:
    """Return the ports for publications and calls: FNV-1a over the path (section 1.1)."""
    hashed = FNV_OFFSET
    for byte in os.fsencode(directory):
        hashed = (hashed ^ byte) * FNV_PRIME & 0xFFFFFFFF
    first = FIRST_PORT + hashed % PORTS
    return first, first + 1


def find_ports(directory: str, instances: Path = INSTANCES) -> list[tuple[int, int]]:
    """Return ports where a primary of `directory` may listen, the likeliest first, without duplicates.

    The order is: the lock file of a living process; the registry, with primaries first, because other instances may
    have their own bus (seed, section 11); the ports that follow from the path.
    """
    found: list[tuple[int, int]] = []
    lock = _read(_lock_path(directory), Lock)
    if lock is not None and _is_running(lock.pid):
        found.append((lock.pub_port, lock.rpc_port))
    entries = [entry for entry in _entries(instances) if entry.path == _path_text(directory) and _is_running(entry.pid)]
    entries.sort(key=lambda entry: not entry.is_primary)
    found += [(entry.pub_port, entry.rpc_port) for entry in entries]
    found.append(derive_ports(directory))
    return list(dict.fromkeys(found))


# -- files --------------------------------------------------------------------------------------------


def _lock_path(directory: str) -> Path:
    return Path(directory, ".pando", "ipc.lock")


def _locked(path: Path) -> int:
    """Open and lock the file at `path`, and check that it was not deleted before it was locked."""
    for _ in range(TRIES):
        # O_NOFOLLOW: a checked-out project may contain a symbolic link to a file that must not be overwritten.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_file_at(descriptor, path):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            holder = _read(path, Lock)
            who = f"process {holder.pid}" if holder is not None else "another process"
            raise OSError(errno.EADDRINUSE, f"{who} is the primary of this project", str(path)) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise OSError(errno.EBUSY, "other processes keep deleting the lock file", str(path))


def _is_file_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except OSError:
        return False


def _read(path: Path, kind: type[Record]) -> Record | None:
    """Return a record; None if it does not exist or is incomplete. Any user may put anything in its place."""
    try:
        return msgspec.json.decode(read_small(path, RECORD_MAX, wait=0), type=kind)
    except (ConfigError, *MALFORMED):
        return None


def _entries(instances: Path) -> Iterator[InstanceRecord]:
    with contextlib.suppress(OSError):
        for _, path in zip(range(ENTRIES_MAX), instances.glob("*.json"), strict=False):
            entry = _read(path, InstanceRecord)
            if entry is not None:
                yield entry


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True  # another user's process exists
    except (OSError, OverflowError):
        return False
    return pid > 0


def _path_text(directory: str) -> str:
    """Return a path as JSON text; bytes that are not UTF-8 are replaced, as Go does."""
    return os.fsencode(directory).decode("utf-8", "replace")


def _record_text(record: Lock | InstanceRecord) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"


def _time(at: int, *, local: bool = False) -> str:
    """Return a time as RFC 3339, with as many of nine fraction digits as needed (section 1.2)."""
    seconds, rest = divmod(at, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    text = (moment.astimezone() if local else moment).isoformat()
    fraction = f".{rest:09}".rstrip("0") if rest else ""
    return f"{text[:19]}{fraction}{text[19:]}".replace("+00:00", "Z")
