"""A project directory of pando: who is its primary, and at which ports (docs/dialects/pando.md, section 1).

To be the primary is to hold a flock on `.pando/ipc.lock`, as long as the process lives; that the file exists means
nothing. What it says, and an entry in the registry of instances, is how others find our ports. The ports follow from
the path. None of this proves that anybody listens: whoever dials tries.
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
from dragoman.mappings.errors import ConfigError

__all__ = ["INSTANCES", "Instance", "Lock", "Project", "ProjectListener", "find", "ports"]

log = structlog.get_logger("dragoman.pando")

INSTANCES = Path("/tmp/pando-instances")  # noqa: S108  # pando's own folder; see _write for who else writes there
MODE = "proxy"  # the one of the six modes (docs/dialects/pando.md, section 1.3) that comes nearest to what we are

FNV_OFFSET, FNV_PRIME = 0x811C9DC5, 0x01000193
FIRST_PORT, PORTS = 40000, 20000

RECORD_MAX = 64 * 1024  # bytes: a path has 4 KiB
ENTRIES_MAX = 1024  # instances on one machine that are looked at
TRIES = 16  # times that a lock was deleted while we took it: each costs another process a start and an end

Record = TypeVar("Record", bound="Lock | Instance")


class Lock(Struct, frozen=True, kw_only=True):
    """What `.pando/ipc.lock` says (section 1.2)."""

    instance_id: str
    pid: int
    pub_port: int
    rpc_port: int
    started_at: str


class Instance(Struct, frozen=True, kw_only=True):
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
    """A project whose primary we are; made by `claim`, ended by `release`."""

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
        """Become the primary of an absolute path, which is taken as it is written: a slash more gives other ports.

        `instance_id` is what our envelopes say, `at` the time in ns. OSError EADDRINUSE when there is a primary.
        """
        if not os.path.isdir(directory):
            raise ConfigError(f"{directory}: the project's directory does not exist")
        path = _lock_path(directory)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        project = cls(directory, _locked(path), instance_id, ports(directory), at)
        try:
            project._say()
        except BaseException:
            project.release()
            raise
        return project

    def register(self, instances: Path = INSTANCES) -> None:
        """Let others find us; call it once the ports are bound. OSError where the registry is somebody else's."""
        entry = Instance(
            instance_id=self.instance_id, path=_written(self.directory), pid=os.getpid(), pub_port=self.publish_port,
            rpc_port=self.call_port, started_at=_time(self._at, local=True), mode=MODE, is_primary=True,
        )  # fmt: skip
        instances.mkdir(mode=0o755, exist_ok=True)
        path = instances / f"{self.instance_id}.json"
        _write(path, _text(entry))
        self._entry = path

    def release(self) -> None:
        """Remove both and stop being the primary; idempotent, and whatever became of the files."""
        if self._entry is not None:
            with contextlib.suppress(OSError):
                self._entry.unlink()
            self._entry = None
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            try:
                # Before the lock goes: after it, the file could be the successor's. Who locks what we have removed sees
                # that the path is another file, and tries again.
                if _is(descriptor, self._path):
                    with contextlib.suppress(OSError):
                        self._path.unlink()
            finally:
                os.close(descriptor)

    def _say(self) -> None:
        record = Lock(
            instance_id=self.instance_id, pid=os.getpid(), pub_port=self.publish_port, rpc_port=self.call_port,
            started_at=_time(self._at),
        )  # fmt: skip
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, _text(record), 0)


class ProjectListener:
    """The listener of a project whose primary we are: with it the lock goes, and the entry in the registry."""

    def __init__(self, project: Project, listener: Listener) -> None:
        self.address = f"dir:{project.directory}"
        self._project = project
        self._listener = listener
        try:
            project.register()
        except OSError as error:  # it is found by its lock all the same
            log.warning("not in the registry of instances", error=str(error))

    async def close(self) -> None:
        """Stop accepting, and stop being the primary."""
        await self._listener.close()
        self._project.release()


def ports(directory: str) -> tuple[int, int]:
    """The ports of publication and calls: FNV-1a over the path (section 1.1)."""
    hashed = FNV_OFFSET
    for byte in os.fsencode(directory):
        hashed = (hashed ^ byte) * FNV_PRIME & 0xFFFFFFFF
    first = FIRST_PORT + hashed % PORTS
    return first, first + 1


def find(directory: str, instances: Path = INSTANCES) -> list[tuple[int, int]]:
    """The ports at which a primary of `directory` may listen, the likeliest first and each once.

    What its lock says, if it can be read and that process lives; then the registry: primaries before others, which may
    have a bus of their own (seed, section 11); at last the ports that follow from the path.
    """
    found: list[tuple[int, int]] = []
    lock = _read(_lock_path(directory), Lock)
    if lock is not None and _lives(lock.pid):
        found.append((lock.pub_port, lock.rpc_port))
    entries = [entry for entry in _entries(instances) if entry.path == _written(directory) and _lives(entry.pid)]
    entries.sort(key=lambda entry: not entry.is_primary)
    found += [(entry.pub_port, entry.rpc_port) for entry in entries]
    found.append(ports(directory))
    return list(dict.fromkeys(found))


# -- files --------------------------------------------------------------------------------------------


def _lock_path(directory: str) -> Path:
    return Path(directory, ".pando", "ipc.lock")


def _locked(path: Path) -> int:
    """Open and lock the file that is at `path` once it is locked, and not one that was deleted meanwhile."""
    for _ in range(TRIES):
        # A checked-out project may bring a symbolic link here, to a file that must not be overwritten.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is(descriptor, path):
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
    raise OSError(errno.EBUSY, "the lock is deleted as often as it is made", str(path))


def _is(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except OSError:
        return False


def _write(path: Path, text: bytes) -> None:
    """Whole or not at all, and never through a link: anybody may write where the registry is."""
    draft = path.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    with open(descriptor, "wb") as file:
        file.write(text)
    draft.replace(path)


def _read(path: Path, kind: type[Record]) -> Record | None:
    """A record; None where there is none, or not yet all of it."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # a pipe must not hold us up
            return msgspec.json.decode(file.read(RECORD_MAX), type=kind)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _entries(instances: Path) -> Iterator[Instance]:
    with contextlib.suppress(OSError):
        for _, path in zip(range(ENTRIES_MAX), instances.glob("*.json"), strict=False):
            entry = _read(path, Instance)
            if entry is not None:
                yield entry


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True  # somebody else's: it lives
    except (OSError, OverflowError):
        return False
    return pid > 0


def _written(directory: str) -> str:
    """A path in JSON: what is not UTF-8 is replaced, as Go does it."""
    return os.fsencode(directory).decode("utf-8", "replace")


def _text(record: Lock | Instance) -> bytes:
    return msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"


def _time(at: int, *, local: bool = False) -> str:
    """RFC 3339 with as many of nine fraction digits as there are (section 1.2)."""
    seconds, rest = divmod(at, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, UTC)
    text = (moment.astimezone() if local else moment).isoformat()
    fraction = f".{rest:09}".rstrip("0") if rest else ""
    return f"{text[:19]}{fraction}{text[19:]}".replace("+00:00", "Z")
