"""The pods of a directory, `pod+dir:DIR` as an upstream: each folder with a `sock` at which a process listens.

Pods start and end by themselves, and a folder may outlive its pod. So a process is looked for when a pod is to be used,
and only at that pod's socket. The directory is listed again after its modification time has changed. The status of a
pod is read from the `status.json` beside its socket (docs/dialects/pod.md, section 2); a pod without that file counts
as idle.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from dragoman.gateway.endpoint import Endpoint
from dragoman.mappings.canonical.values import Status

__all__ = ["Pod", "Pods"]

STATUS_MAX = 64 * 1024  # bytes of a status.json: a real one has a hundred
COARSEST_NS = 2_000_000_000  # the coarsest modification times of a file system: FAT counts 2 s


class Pod(Struct, frozen=True, kw_only=True):
    """A pod that can be connected to. `updated_at` is the time in ns of the last change of its status."""

    name: str
    endpoint: Endpoint
    status: Status = "idle"
    updated_at: int = 0


class StatusFile(Struct, frozen=True):
    """The part of a `status.json` that is read."""

    state: Status


class Pods:
    """The pods of one directory. `is_alive` returns True if a process listens at a socket; `clock` returns ns."""

    def __init__(
        self, upstream: Endpoint, is_alive: Callable[[str], bool], clock: Callable[[], int] = time.time_ns
    ) -> None:
        self._upstream = upstream
        self._folder = Path(upstream.address)
        self._is_alive = is_alive
        self._clock = clock
        self._names: tuple[str, ...] = ()
        self._modified: int | None = None  # of the directory when it was listed; None if a change may be missed by it

    def names(self) -> Sequence[str]:
        """Return the names of all folders, sorted; the same object as long as the directory has not changed."""
        try:
            modified = os.stat(self._folder).st_mtime_ns
            if modified != self._modified:
                settled = self._clock() - modified > COARSEST_NS  # later changes get another modification time
                names = tuple(sorted(os.listdir(self._folder)))
                self._names = names if names != self._names else self._names
                self._modified = modified if settled else None
        except OSError:  # the directory does not exist yet, or must not be read
            self._names, self._modified = (), None
        return self._names

    def find_pod(self, name: str) -> Pod | None:
        """Return the pod of this name, if a process listens at its socket."""
        if not name or Path(name).name != name or not self._is_alive(str(self._folder / name / "sock")):
            return None
        status, at = self._status(name)
        return Pod(name=name, endpoint=self.endpoint(name), status=status, updated_at=at)

    def latest(self) -> Pod | None:
        """Return the pod whose status changed last."""
        by_time = sorted(self.names(), key=lambda name: -self._status(name)[1])
        return next((pod for name in by_time if (pod := self.find_pod(name)) is not None), None)

    def endpoint(self, name: str) -> Endpoint:
        """Return the endpoint of the pod of this name."""
        return structs.replace(self._upstream, transport="unix", address=str(self._folder / name / "sock"), options=())

    def told_at(self, name: str) -> int | None:
        """Return the time in ns at which a pod wrote its status; None if it keeps none, or may change it unnoticed."""
        try:
            written = os.stat(self._folder / name / "status.json").st_mtime_ns
        except OSError:
            return None
        return written if self._clock() - written > COARSEST_NS else None

    def _status(self, name: str) -> tuple[Status, int]:
        path = self._folder / name / "status.json"
        try:
            with path.open("rb") as file:
                text = file.read(STATUS_MAX)
            return msgspec.json.decode(text, type=StatusFile).state, path.stat().st_mtime_ns
        except (OSError, msgspec.DecodeError):  # a pod of another make
            try:
                return "idle", path.with_name("sock").stat().st_mtime_ns
            except OSError:
                return "idle", 0
