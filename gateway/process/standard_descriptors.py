"""The descriptors 0, 1 and 2 of a process that was started without some of them, as `2>&-` does.

The next socket would get the number of a closed one: what is meant for stderr would go to a peer, and libuv aborts the
process when it closes a descriptor below 3.
"""

from __future__ import annotations

import os
import sys


def open_missing() -> None:
    """Open each standard descriptor that is closed, and its stream. Call it before anything is opened.

    stdin is empty, and stderr is dropped. stdout is a pipe that nobody reads, so that output is not lost in silence.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  # stays open as long as the process
    if sys.stdout is None:
        reader, writer = os.pipe()
        os.dup2(writer, 1)
        os.close(reader)
        os.close(writer)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  # stays open as long as the process
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  # stays open as long as the process
