"""The folder of a pod and its entry in the table of running pods, by which other programs find it
(docs/dialects/pod.md, section 2).

BASE/NAME has the socket `sock` and the files that a pod keeps next to it. Only the owner can read the folder. Files of
a dead pod are replaced; a live pod's folder is refused. A pod is alive if its socket is, so the socket is bound first.

RUNTIME/pods.json has the entries, by which a TUI finds running pods. Nobody else gets the name and the scope of an
entry until its process has ended. A parent pod reserves both for its child, under its own process id, and the child
puts its own id there. Else the parent could not start a child of this name again.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import structlog
from msgspec import Struct, field

from dragoman.adapters.base import Listener
from dragoman.gateway.process.private_files import make_folder, write_file
from dragoman.gateway.public_reason import full_reason
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.codec import MALFORMED
from dragoman.mappings.errors import ConfigError

NAME_MAX = 255  # bytes of a file name
STDERR_LOG = "stderr.log"  # written by the launcher and removed with the folder, as for a pod

RUNTIME = {
    "INSOMNIA_RUNTIME_DIR": "",
    "INSOMNIA_HOME": "run",
    "YOI_RUNTIME_DIR": "",
    "YOI_HOME": "run",
    "XDG_RUNTIME_DIR": "insomnia",
    "HOME": ".insomnia/run",
}
"""Variable -> the folder of running pods below it. The first that is set counts; later versions have the name yoi."""

SESSIONS = {
    "INSOMNIA_DATA_DIR": "sessions",
    "INSOMNIA_HOME": "sessions",
    "YOI_DATA_DIR": "sessions",
    "YOI_HOME": "sessions",
    "HOME": ".insomnia/sessions",
}
"""Variable -> the folder of the pods' sessions below it, in the same order."""

log = structlog.get_logger("dragoman.pod")


class PodFolder:
    """A listener at `BASE/NAME/sock`; its status.json shows the state of the session behind it.

    If it is `listed`, BASE is the runtime directory of pods, and other programs find it in the table there.
    """

    certificate_end = None

    def __init__(self, base: Path, name: str, *, listed: bool = False) -> None:
        self.name = check_name(name)
        self.folder = base / name
        self.socket = self.folder / "sock"
        self.address = f"unix:{self.socket}"
        self._allocation = PodAllocation(base, name, self.socket) if listed else None
        self._listener: Listener | None = None

    @property
    def is_reachable(self) -> bool:
        """Return False if no client can connect: the file of the socket was removed or replaced."""
        return self._listener is not None and self._listener.is_reachable

    async def open(self, listen: Callable[[str], Awaitable[Listener]]) -> None:
        """Create the folder and listen in it; raise OSError if a live pod has it or the folder cannot be used."""
        make_folder(self.folder)
        try:
            self._listener = await listen(str(self.socket))
            write_file(self.folder / "pid", str(os.getpid()).encode())
            self._write_status("", "idle")
        except BaseException:
            await self.close()
            raise
        if self._allocation is not None:
            await self._allocation.take()

    def write_status(self, state: SessionState) -> None:
        """Write the session's status; a write error is logged and does not affect the session."""
        if self._listener is not None:
            try:
                self._write_status(state.id, state.status)
            except OSError as error:
                log.warning("cannot write status.json", pod=self.name, error=full_reason(error))

    async def close(self) -> None:
        """Stop listening and remove our files. A folder with other files stays, or with those of another pod."""
        is_taken_over = self.socket.exists() and not self.is_reachable
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.close()
            if not is_taken_over:
                await self._remove_traces()
        with contextlib.suppress(OSError):  # the folder has other files, or belongs to a live pod
            self.folder.rmdir()

    async def _remove_traces(self) -> None:
        for name in ("status.json", "pid", STDERR_LOG):
            with contextlib.suppress(OSError):  # it is missing, or its file system is read-only now
                self.folder.joinpath(name).unlink()
        if self._allocation is not None:
            await self._allocation.release()

    def _write_status(self, session: str, status: str) -> None:
        content = {"pod_name": self.name, "segment_id": session or None, "state": status}
        write_file(self.folder / "status.json", msgspec.json.encode(content))


def runtime_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder where running pods have theirs; raise ConfigError that names the variables to set."""
    return _find_folder("runtime directory", RUNTIME, environment)


def sessions_directory(environment: Mapping[str, str]) -> Path:
    """Return the folder of the pods' sessions; raise ConfigError that names the variables to set."""
    return _find_folder("data directory", SESSIONS, environment)


def _find_folder(what: str, places: Mapping[str, str], environment: Mapping[str, str]) -> Path:
    """Return the folder below the first variable that is set and not empty."""
    for variable, below in places.items():
        if environment.get(variable):
            return Path(environment[variable]) / below
    raise ConfigError(f"no {what} for pods: set {' or '.join(places)}")


def check_name(name: str) -> str:
    """Return `name` if it is valid for a pod; raise ConfigError otherwise."""
    if not name or name in (".", "..") or "/" in name or "\0" in name or len(os.fsencode(name)) > NAME_MAX:
        raise ConfigError(f"invalid pod name {name!r}: write one without `/`, for example atlas")
    return name


TABLE = "pods.json"
OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a named pipe in its place must not block
LOCK_DEADLINE = 1.0  # seconds: pods hold the lock for a few milliseconds, unless they are stopped
LOCK_PAUSE = 0.02  # seconds between two attempts to lock the table
LOCKED = f"another process has locked it for {LOCK_DEADLINE:g} s"


class Table(Struct):
    """The content of the file. Each entry has `pod_name` and `pid`, and keys that are not changed here."""

    allocations: list[dict[str, Any]] = field(default_factory=list)


class PodAllocation:
    """The entry of the pod `name`, which listens at `socket`. An error of the file is logged and stops nothing."""

    def __init__(self, base: Path, name: str, socket: Path) -> None:
        self._path = base / TABLE
        self._name = name
        self._socket = socket

    async def take(self) -> None:
        """Write our process id into the entry of this name, or add an entry that claims no scope."""
        await self._change(self._add, "cannot add the pod to the table of running pods", os.O_CREAT)

    async def release(self) -> None:
        """Remove the entry if it is ours."""
        await self._change(self._remove, "cannot remove the pod from the table of running pods")

    def _add(self, table: Table) -> None:
        found = [entry for entry in table.allocations if entry.get("pod_name") == self._name]
        for entry in found:
            entry["pid"] = os.getpid()
        if not found:
            table.allocations.append(self._new_entry())

    def _remove(self, table: Table) -> None:
        own = (self._name, os.getpid())
        table.allocations = [one for one in table.allocations if (one.get("pod_name"), one.get("pid")) != own]

    def _new_entry(self) -> dict[str, Any]:
        return {
            "pod_name": self._name,
            "pid": os.getpid(),
            "socket": str(self._socket),
            "scope_allow": [],
            "scope_deny": [],
            "delegated_from": None,
            "segment_id": None,
        }

    def _open(self, flags: int) -> BinaryIO:
        return open(os.open(self._path, OPEN | flags, 0o600), "r+b")

    async def _change(self, change: Callable[[Table], None], problem: str, flags: int = 0) -> None:
        """Lock the table, change it, and write it in place, because pods lock the file itself."""
        try:
            with self._open(flags) as file:
                await _lock(file)
                before = file.read()
                table = msgspec.json.decode(before.strip() or b"{}", type=Table)
                change(table)
                content = msgspec.json.format(msgspec.json.encode(table), indent=2)
                file.write(b" " * (len(content) - len(before)))  # on a full disk this fails, and no entry is lost
                file.seek(0)
                file.write(content)
                file.truncate()
        except (OSError, TimeoutError, *MALFORMED) as error:
            log.warning(problem, file=str(self._path), error=full_reason(error) or LOCKED)


async def _lock(file: BinaryIO) -> None:
    """Lock a file; raise TimeoutError if another process holds the lock for LOCK_DEADLINE."""
    async with asyncio.timeout(LOCK_DEADLINE):
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                await asyncio.sleep(LOCK_PAUSE)
            else:
                return
