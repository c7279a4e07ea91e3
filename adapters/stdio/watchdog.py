"""The watchdog of one gateway: a process that ends the children if the gateway is killed.

    gateway --pipe--> watchdog        "+GROUP MARK": watch it    "-GROUP": it has ended    EOF: the gateway is gone

The watchdog starts with the first child, in its own session, so that no signal to the gateway's group reaches it. It
holds only the pipe: neither our stdio nor a listening socket. A group that has ended is removed at once, because its
number may be reused. If the watchdog was killed, the next message starts it again.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("watchdog_program.py")


class Watchdog:
    """The gateway's end of the pipe to the watchdog process."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1
        self._groups: dict[int, str] = {}  # group -> the mark of its processes in other sessions, or ""

    def start(self) -> None:
        """Start the watchdog process unless it runs; raise OSError if that fails."""
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        source, self._pipe = os.pipe()
        try:
            os.set_blocking(self._pipe, False)
            self._process = subprocess.Popen(  # noqa: S603  # our own interpreter and our own file
                [sys.executable, "-I", "-S", str(PROGRAM), f"gateway={os.getpid()}"],
                stdin=source,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,
            )
        finally:
            os.close(source)
        for group, mark in self._groups.items():
            self._send(f"+{group} {mark}\n".encode())

    def watch(self, group: int, mark: str = "") -> None:
        """Add a process group that the watchdog ends if the gateway is killed, with all processes of a mark."""
        self._groups[group] = mark
        self._change(f"+{group} {mark}\n".encode())

    def forget(self, group: int) -> None:
        """Remove a process group that has ended."""
        self._groups.pop(group, None)
        self._change(b"-%d\n" % group)

    def close(self) -> None:
        """Kill and reap the watchdog process, if it runs. The gateway ends its children itself before."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1

    # --------------------------------------------------------------------------------------------------

    def _change(self, line: bytes) -> None:
        if self._process is not None and not self._send(line):  # a child may still exit after `close`
            self.close()
            with contextlib.suppress(OSError):  # the next change or child tries again
                self.start()  # sends all groups

    def _send(self, line: bytes) -> bool:
        """Write one line; return False if the watchdog has ended or its pipe is full."""
        try:
            os.write(self._pipe, line)
        except OSError:
            return False
        return True
