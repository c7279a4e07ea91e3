"""The watchdog's program: ends the process groups of a gateway that was killed.

This file runs without a package, so that it starts in milliseconds and needs little memory. Its stdin is a pipe that
only the gateway holds. Each line names a process group: `+123` is to be watched, `-123` has ended. EOF means that the
gateway is gone, in order or not. Every group that is still watched then gets SIGTERM, and SIGKILL after TERM_WAIT.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable

STDIN = 0
TERM_WAIT = 2.0  # seconds after SIGTERM: as long as a gateway that stops allows
KILL_WAIT = 1.0
POLL = 0.02  # seconds between two polls: the exit of an orphan sends us no signal


def read_groups() -> set[int]:
    """Return the groups that are still watched when stdin ends."""
    groups: set[int] = set()
    begun = b""
    while data := os.read(STDIN, 4096):
        *lines, begun = (begun + data).split(b"\n")
        for line in lines:
            change = groups.add if line.startswith(b"+") else groups.discard
            change(int(line[1:]))
    return groups


def send(groups: Iterable[int], number: int) -> list[int]:
    """Signal these groups and return those that exist and may be signalled. Signal 0 only checks."""
    found = []
    for group in groups:
        try:
            os.killpg(group, number)
        except (ProcessLookupError, PermissionError):
            continue
        found.append(group)
    return found


def end(groups: Iterable[int]) -> None:
    """End these groups with SIGTERM, then SIGKILL."""
    for number, wait in ((signal.SIGTERM, TERM_WAIT), (signal.SIGKILL, KILL_WAIT)):
        left = send(groups, number)
        until = time.monotonic() + wait
        while left and time.monotonic() < until:
            time.sleep(POLL)
            left = send(left, 0)
        groups = left


if __name__ == "__main__":
    for ignored in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(ignored, signal.SIG_IGN)  # a supervisor signals a whole service, but we must outlive the gateway
    end(read_groups())
