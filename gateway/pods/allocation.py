"""The entry of a pod in the table of all running pods, RUNTIME/pods.json (docs/dialects/pod.md, section 2).

A TUI finds running pods there. Nobody else gets the name and the scope of an entry until its process has ended. A
parent pod reserves both for its child, under its own process id, and the child puts its own id there. Else the parent
could not start a child of this name again.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import structlog
from msgspec import Struct, field

from dragoman.gateway.public_reason import full_reason
from dragoman.mappings.codec import MALFORMED

TABLE = "pods.json"
OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a named pipe in its place must not block
LOCK_DEADLINE = 1.0  # seconds: pods hold the lock for a few milliseconds, unless they are stopped
LOCK_PAUSE = 0.02  # seconds between two attempts to lock the table
LOCKED = f"another process has locked it for {LOCK_DEADLINE:g} s"

log = structlog.get_logger("dragoman.pod")


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
        """Put our process id in the entry of this name, or add an entry that claims no scope."""
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
