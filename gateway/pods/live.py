"""The pods of a directory, `pod+dir:DIR` as an upstream: each folder with a socket `sock` at which a process listens.

Every method but `is_changed` may make many system calls, or wait for a slow file system, so it is called in a thread.
What is read of a pod is read again only after something shows a change:

    what may change                     what shows it
    pods come and go                    the modification time of the directory
    a socket is bound, a status told    the modification time of the pod's folder: `status.json` is renamed into it
    a process dies                      a connect to its socket, made when the pod is to be used

The standard library has no binding for inotify, and a modification time costs one system call.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from dragoman.gateway.endpoint import Endpoint
from dragoman.mappings.canonical.values import Status
from dragoman.mappings.codec import MALFORMED

AT_ONCE = os.O_RDONLY | os.O_NONBLOCK  # a named pipe must not block us
STATUS_MAX = 64 * 1024  # bytes of a status.json: a real one has a hundred
COARSEST_NS = 1_000_000_000  # the coarsest modification times of file systems with sockets: ext3 counts seconds


class Pod(Struct, frozen=True, kw_only=True, gc=False):
    """A pod as its folder shows it. `updated_at` is the time in ns of the last change of its status.

    `listens` is False if the folder has no socket, or if no process listens there. `silent` is True if the pod says
    that it has no conversation yet. `modified` is the time of its folder in ns; 0 if a later change may have the same
    time.
    """

    name: str
    status: Status = "idle"
    updated_at: int = 0
    listens: bool = False
    silent: bool = False
    modified: int = 0


class StatusFile(Struct, frozen=True):
    """The fields of a `status.json` that the gateway reads. A pod without that file counts as idle."""

    state: Status = "idle"
    segment_id: str | None = "unknown"


STATUS = msgspec.json.Decoder(StatusFile)


class Pods:
    """The pods of one directory. `is_alive` returns True if a process listens at a socket; `clock` returns ns."""

    def __init__(
        self, upstream: Endpoint, is_alive: Callable[[str], bool], clock: Callable[[], int] = time.time_ns
    ) -> None:
        self._upstream = upstream
        self._folder = str(Path(upstream.address))
        self._is_alive = is_alive
        self._clock = clock
        self._names: tuple[str, ...] = ()
        self._modified = 0  # mtime of the directory when it was listed; 0 if a later change may have the same

    def is_changed(self) -> bool:
        """Return True if the directory may have other folders than those that `list_names` returned last."""
        try:
            return os.stat(self._folder).st_mtime_ns != self._modified
        except OSError:  # the directory does not exist yet, or must not be read
            return bool(self._names)

    def list_names(self) -> Sequence[str]:
        """Return the names of all entries, sorted; the same object if they are the same as before.

        The name of a pod is text, so an entry whose name is not UTF-8 is left out.
        """
        try:
            modified = self._settled(os.stat(self._folder).st_mtime_ns)
            names = tuple(sorted(filter(_is_text, os.listdir(self._folder))))
        except OSError:
            modified, names = 0, ()
        self._modified = modified
        self._names = names if names != self._names else self._names
        return self._names

    def read_changed(self, known: Iterable[tuple[str, int]]) -> list[Pod]:
        """Return the pods whose folder has another modification time than the one given with its name."""
        return [self._read(name) for name, modified in known if not modified or self._time(name, "") != modified]

    def probe(self, names: Iterable[str], *, wanted: int = 1, idle: bool = False) -> list[Pod]:
        """Connect to pods in order until `wanted` of them are alive (with `idle`: alive and idle).

        Return the probed ones.
        """
        pods: list[Pod] = []
        for name in names:
            pod = self._read(name)
            pods.append(structs.replace(pod, listens=pod.listens and self._is_alive(self._path(name, "sock"))))
            wanted -= pods[-1].listens and (pod.status == "idle" or not idle)
            if not wanted:
                break
        return pods

    def endpoint(self, name: str) -> Endpoint:
        return structs.replace(self._upstream, transport="unix", address=self._path(name, "sock"), options=())

    def _path(self, name: str, file: str) -> str:
        return f"{self._folder}/{name}/{file}"

    def _read(self, name: str) -> Pod:
        modified = self._settled(self._time(name, ""))  # first: what changes while we read is then read again
        try:
            bound = os.stat(self._path(name, "sock"))
        except OSError:
            return Pod(name=name, modified=modified)
        status_file = self._read_status(name)
        return Pod(
            name=name,
            status=status_file.state,
            updated_at=self._time(name, "status.json") or bound.st_mtime_ns,
            listens=not stat.S_ISDIR(bound.st_mode),
            silent=status_file.segment_id is None,
            modified=modified,
        )

    def _read_status(self, name: str) -> StatusFile:
        try:
            file = os.open(self._path(name, "status.json"), AT_ONCE)
            try:
                return STATUS.decode(os.read(file, STATUS_MAX))
            finally:
                os.close(file)
        except (OSError, *MALFORMED):  # a pod of another program
            return StatusFile()

    def _time(self, name: str, file: str) -> int:
        """Return the modification time in ns of a pod's folder, or of a file in it; 0 if there is none."""
        try:
            return os.stat(self._path(name, file)).st_mtime_ns
        except OSError:
            return 0

    def _settled(self, modified: int) -> int:
        """Return a modification time, or 0 if it is so recent that a later change may get the same one."""
        return modified if self._clock() - modified > COARSEST_NS else 0


def _is_text(name: str) -> bool:
    """Return True if the name of a file is UTF-8: Python decodes any other byte as a lone surrogate."""
    return name.isascii() or not any("\udc80" <= character <= "\udcff" for character in name)
