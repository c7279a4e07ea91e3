"""The pods of a directory, `pod+dir:DIR` as an upstream: every folder in it whose `sock` somebody listens at.

The directory is read each time that it is asked about: pods come and go by themselves, and a folder may outlive its
pod. What a pod does now is read from the `status.json` beside its socket (docs/dialects/pod.md, section 2); one that
keeps none is taken for idle.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from dragoman.gateway.endpoint import Endpoint
from dragoman.mappings.canonical.values import Status

__all__ = ["Pod", "Pods"]

PODS_MAX = 1000  # folders looked at: a runtime directory holds dozens
STATUS_MAX = 64 * 1024  # bytes of a status.json: a real one has a hundred


class Pod(Struct, frozen=True, kw_only=True):
    """A pod that can be connected to. `updated_at` in ns: when its status last changed."""

    name: str
    endpoint: Endpoint
    status: Status = "idle"
    updated_at: int = 0


class StatusFile(Struct, frozen=True):
    """The part of a `status.json` that is read."""

    state: Status


class Pods:
    """Looks into one directory; `alive` says whether somebody listens at a socket."""

    def __init__(self, upstream: Endpoint, alive: Callable[[str], bool]) -> None:
        self._upstream = upstream
        self._folder = Path(upstream.address)
        self._alive = alive

    def live(self) -> list[Pod]:
        """Every pod that is there now, by name."""
        try:
            names = sorted(entry.name for entry in self._folder.iterdir())[:PODS_MAX]
        except OSError:  # the directory is not there yet, or not ours to read: no pods
            return []
        return [pod for name in names if (pod := self.named(name)) is not None]

    def named(self, name: str) -> Pod | None:
        """The pod of this name, if it is there."""
        socket = self._folder / name / "sock"
        if not name or Path(name).name != name or not self._alive(str(socket)):
            return None
        status, at = _status(socket)
        endpoint = structs.replace(self._upstream, transport="unix", address=str(socket), options=())
        return Pod(name=name, endpoint=endpoint, status=status, updated_at=at)


def _status(socket: Path) -> tuple[Status, int]:
    path = socket.with_name("status.json")
    try:
        with path.open("rb") as file:
            text = file.read(STATUS_MAX)
        return msgspec.json.decode(text, type=StatusFile).state, path.stat().st_mtime_ns
    except (OSError, msgspec.DecodeError):  # a pod of another make: it runs, that is all we know
        try:
            return "idle", socket.stat().st_mtime_ns
        except OSError:
            return "idle", 0
