"""Small programs to spawn, and functions that find those which still run.

Every one has a marker of its test among its arguments. A process that ended and was not reaped has no arguments any
more, so `unreaped` looks for those by their parent.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from uuid import uuid4

DEADLINE = 20.0  # what should happen at once happens far below
ENV = dict(os.environ)

FAMILY = """
    import os, signal, subprocess, sys

    mark, manners = sys.argv[1:3]
    quiet = "import signal; [signal.signal(n, signal.SIG_IGN) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]"
    waits = "print('grandchild', flush=True)\\nwhile True: signal.pause()"
    code = (quiet if manners == "deaf" else "import signal") + "\\n" + waits
    if manners == "deaf":
        exec(quiet)
    grandchild = subprocess.Popen([sys.executable, "-I", "-S", "-c", code, mark], stdin=subprocess.DEVNULL)
    print("child", flush=True)
    for line in sys.stdin:
        if line == "crash\\n":
            os.kill(os.getpid(), signal.SIGKILL)
        print(line, end="", flush=True)
    while manners == "deaf":
        signal.pause()
    grandchild.terminate()
    grandchild.wait()
"""
"""A server with a server of its own, which holds its stdout. `orderly`: EOF ends both; `deaf`: neither EOF nor TERM."""


def python(code: str, *arguments: str) -> list[str]:
    """Return the argv of a Python program; isolated and without site, it starts in half the time."""
    return [sys.executable, "-I", "-S", "-c", dedent(code), *arguments]


def family(mark: str, manners: str) -> list[str]:
    return python(FAMILY, mark, manners)


def marker() -> str:
    return f"marker-{uuid4()}"


def running(mark: str) -> list[int]:
    """Return the processes that have `mark` among their arguments.

    One that has just been started may be missing: its arguments can be read a moment after it has been executed.
    """
    return [pid for pid in _pids() if mark.encode() in _read(pid, "cmdline").split(b"\0")]


def unreaped() -> list[int]:
    """Return our own children that have ended and that nobody has waited for."""
    ended = []
    for pid in _pids():
        state, parent = [*_read(pid, "stat").rpartition(b") ")[2].split(), b"", b"0"][:2]
        if state == b"Z" and int(parent) == os.getpid():
            ended.append(pid)
    return ended


def reap() -> None:
    """Reap all processes that became our children when their parent ended."""
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def open_files() -> set[str]:
    """Map our open descriptors to the files behind them."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
        except FileNotFoundError:  # the one that lists them
            continue
    return found


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
