"""A pod's folder: BASE/NAME with the socket `sock` and the files that a pod keeps next to it (docs/dialects/pod.md,
section 2).

Programs that look for pods find a session of ours there. Only the owner can read the folder. Files of a dead pod are
replaced; a live pod's folder is refused. The socket decides which it is, so it is bound first.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import msgspec
import structlog

from dragoman.adapters.base import Listener
from dragoman.gateway.pods.allocation import PodAllocation
from dragoman.gateway.process.private_files import make_folder, write_file
from dragoman.gateway.public_reason import full_reason
from dragoman.mappings.canonical import SessionState
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
