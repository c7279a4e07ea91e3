"""The watchdog's program: ends the process groups of a gateway that was killed.

This file runs without a package, so that it starts in milliseconds and needs little memory. Its stdin is a pipe that
only the gateway holds. Each line names a process group: `+123 MARK` is to be watched, `-123` has ended. EOF means that
the gateway is gone, in order or not. Every group that is still watched then gets SIGTERM, and SIGKILL after TERM_WAIT.
So does each process in another session whose environment has the mark, if there is one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping

STDIN = 0
TERM_WAIT = 2.0  # seconds after SIGTERM: as long as a gateway that stops allows
KILL_WAIT = 1.0
MARK = "DRAGOMAN_CHILD"  # variable that marks a child and all processes that it starts
POLL = 0.02  # seconds between two polls: the exit of a process that is no child of ours sends us no signal


def read_groups() -> dict[int, str]:
    """Return the groups that are still watched when stdin ends, with their marks."""
    groups: dict[int, str] = {}
    begun = b""
    while data := os.read(STDIN, 4096):
        *lines, begun = (begun + data).split(b"\n")
        for line in lines:
            group, _, mark = line[1:].decode().partition(" ")
            if line.startswith(b"+"):
                groups[int(group)] = mark
            else:
                groups.pop(int(group), None)
    return groups


def find_marked(variable: str) -> list[int]:
    """Return the processes whose environment has `variable`, of the form NAME=VALUE, as far as we may read it.

    A process inherits the variable from its parent, also in a session of its own. Without /proc nothing is found.
    """
    wanted, found = variable.encode(), []
    with contextlib.suppress(FileNotFoundError):
        for name in filter(str.isdecimal, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                if wanted in file.read().split(b"\0"):
                    found.append(int(name))
    return found


def send(targets: Iterable[int], number: int, kill: Callable[[int, int], None] = os.killpg) -> list[int]:
    """Signal these groups and return those that exist and may be signalled. Signal 0 only checks."""
    found = []
    for target in targets:
        try:
            kill(target, number)
        except (ProcessLookupError, PermissionError):
            continue
        found.append(target)
    return found


def end(groups: Mapping[int, str]) -> None:
    """End these groups, and the processes with their marks, with SIGTERM, then SIGKILL."""
    marks = [f"{MARK}={mark}" for mark in groups.values() if mark]
    left = list(groups)
    for number, wait in ((signal.SIGTERM, TERM_WAIT), (signal.SIGKILL, KILL_WAIT)):
        left = send(left, number)
        marked = send((pid for mark in marks for pid in find_marked(mark)), number, os.kill)
        until = time.monotonic() + wait
        while (left or marked) and time.monotonic() < until:
            time.sleep(POLL)
            left, marked = send(left, 0), send(marked, 0, os.kill)


if __name__ == "__main__":
    for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(ignored, signal.SIG_IGN)  # a supervisor signals a whole service, but we must outlive the gateway
    end(read_groups())
