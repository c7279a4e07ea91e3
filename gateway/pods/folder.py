"""A pod's folder: BASE/NAME with the socket `sock` and the files that a pod keeps beside it
(docs/dialects/pod.md, section 2).

Whoever looks for pods finds a session of ours there as it finds a pod. The folder is for its owner alone. A file that
another pod left is replaced, a live pod's folder is refused: its socket decides, so that is bound first.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import structlog

from dragoman.adapters.base import Listener
from dragoman.gateway.pods.runtime import check_name
from dragoman.mappings.canonical import SessionState

__all__ = ["PodFolder"]

STDERR_LOG = "stderr.log"  # of whoever launched us: it goes with the folder, as a pod's does

log = structlog.get_logger("dragoman.pod")


class PodFolder:
    """A listener at `BASE/NAME/sock`; `state` in its status.json is that of the session behind it."""

    def __init__(self, base: Path, name: str) -> None:
        self.name = check_name(name)
        self.folder = base / name
        self.socket = self.folder / "sock"
        self.address = f"unix:{self.socket}"
        self._listener: Listener | None = None

    async def open(self, listen: Callable[[str], Awaitable[Listener]]) -> None:
        """Make the folder and listen in it; OSError if a live pod has it, or says what else is in the way."""
        self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        try:
            self._listener = await listen(str(self.socket))
            self._write("pid", str(os.getpid()).encode())
            self._tell("", "idle")
        except BaseException:
            await self.close()
            raise

    def tell(self, state: SessionState) -> None:
        """Write what the session does now; a disk that is full costs the file, not the session."""
        if self._listener is not None:
            try:
                self._tell(state.id, state.status)
            except OSError as error:
                log.warning("status.json not written", pod=self.name, error=str(error))

    async def close(self) -> None:
        """Stop listening and remove what is ours; what somebody else put into the folder stays, and so does it."""
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.close()
            for name in ("status.json", "pid", STDERR_LOG):
                self.folder.joinpath(name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # a live pod has it, or somebody put something there
            self.folder.rmdir()

    def _tell(self, session: str, status: str) -> None:
        content = {"pod_name": self.name, "segment_id": session or None, "state": status}
        self._write("status.json", msgspec.json.encode(content))

    def _write(self, name: str, content: bytes) -> None:
        """All of it or nothing: readers never see a half."""
        draft = self.folder / f".{name}.tmp"
        draft.write_bytes(content)
        draft.replace(self.folder / name)
