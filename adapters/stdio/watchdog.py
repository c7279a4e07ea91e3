"""The watchdog of one gateway: a process that ends the children if the gateway is killed and cannot do it.

    gateway --pipe--> watchdog        "+GROUP": watch it    "-GROUP": it has ended    EOF: the gateway is gone

It starts with the first child and runs in a session of its own, so that no signal to the gateway's group reaches it. It
holds the pipe alone: neither our stdio nor a listening socket. A group that has ended is forgotten at once, for its
number may soon be somebody else's. A watchdog that was killed is started again with the next message.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

__all__ = ["Watchdog"]

PROGRAM = Path(__file__).with_name("watchdog_program.py")


class Watchdog:
    """Our end of the pipe."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1
        self._groups: set[int] = set()

    @property
    def pid(self) -> int | None:
        """Its process id, None before the first child."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start it unless it runs; OSError if that cannot be done."""
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        source, self._pipe = os.pipe()
        try:
            os.set_blocking(self._pipe, False)
            self._process = subprocess.Popen(  # noqa: S603  # our own interpreter and our own file
                [sys.executable, "-I", "-S", str(PROGRAM), f"gateway={os.getpid()}"],
                stdin=source, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={}, cwd="/",
                start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(source)
        for group in self._groups:
            self._tell(b"+%d\n" % group)

    def watch(self, group: int) -> None:
        """End this process group if we are killed."""
        self._groups.add(group)
        self._change(b"+%d\n" % group)

    def forget(self, group: int) -> None:
        """Nobody of this process group is left."""
        self._groups.discard(group)
        self._change(b"-%d\n" % group)

    def close(self) -> None:
        """Kill and reap it, if it is there; whoever ends in order has ended his children himself."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1

    # --------------------------------------------------------------------------------------------------

    def _change(self, line: bytes) -> None:
        if self._process is not None and not self._tell(line):  # a child may still end after our `close`
            self.close()
            with contextlib.suppress(OSError):  # the next change tries again, and the next child needs it
                self.start()  # tells it all groups

    def _tell(self, line: bytes) -> bool:
        """Write one line; return False if it has ended, or was stopped for so long that the pipe is full."""
        try:
            os.write(self._pipe, line)
        except OSError:
            return False
        return True
