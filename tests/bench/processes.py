"""Processes under test: started, pinned, measured by what the kernel charges them, ended."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

START = 30.0  # seconds until a process must listen
END = 15.0  # seconds until it must have ended after SIGTERM: the gateway's own drain deadline is 10
TICKS = os.sysconf("SC_CLK_TCK")


def cores() -> tuple[int, int] | None:
    """A core for the load and another for what is tested; None where there are not two."""
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return (allowed[0], allowed[1]) if len(allowed) > 1 else None


def pin(core: int, pid: int = 0) -> None:
    """Keep a process (0: this one) on one core."""
    os.sched_setaffinity(pid, {core})


class Process:
    """A program that runs inside a `with` block; `endpoints` are what it says that it listens on.

    Its first argument is the path of a program, or a module for `python -m`.
    """

    def __init__(
        self,
        *arguments: str,
        core: int | None,
        listeners: int = 1,
        environment: Mapping[str, str] | None = None,
        endpoints: Sequence[str] = (),
    ) -> None:
        self._arguments = arguments
        self._environment = environment
        self._core = core
        self._listeners = listeners
        self.endpoints = list(endpoints)  # of a program that does not say them; they are paths

    @property
    def endpoint(self) -> str:
        """The first of them."""
        return self.endpoints[0]

    def __enter__(self) -> Process:
        self._log = tempfile.TemporaryFile()  # closed by __exit__
        self._process = subprocess.Popen(
            self._command(),
            stdin=subprocess.DEVNULL,
            stderr=self._log,
            env=self._environment,
        )
        if self._core is not None:
            pin(self._core, self._process.pid)
        deadline = time.monotonic() + START
        for endpoint in self.endpoints:
            while not os.path.exists(endpoint.partition(":")[2]) and time.monotonic() < deadline:
                time.sleep(0.02)
        while len(self.endpoints) < self._listeners:
            time.sleep(0.02)
            lines = self._said().splitlines()
            self.endpoints = [line.removeprefix("listening ") for line in lines if line.startswith("listening ")]
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._process.kill()
                raise RuntimeError(f"{' '.join(self._arguments)} does not listen:\n{self._said()}")
        return self

    def _command(self) -> list[str]:
        return [*([] if "/" in self._arguments[0] else [sys.executable, "-m"]), *self._arguments]

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._process.pid

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is not None:
            print(f"{' '.join(self._arguments)[:300]}:\n{self._said()[-2000:]}", file=sys.stderr)
        self._process.terminate()
        try:
            self._process.wait(END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()

    def _said(self) -> str:
        return os.pread(self._log.fileno(), 1 << 20, 0).decode(errors="replace")

    def memory(self) -> int:
        """Bytes of the process that are in memory now."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024

    def cpu(self) -> float:
        """Seconds of CPU that the process has used: to the nanosecond where Linux tells, else in ticks of 10 ms."""
        proc = Path(f"/proc/{self._process.pid}")
        try:
            tasks = [(task / "schedstat").read_text().split() for task in (proc / "task").iterdir()]
            if any(int(used[0]) for used in tasks):
                return sum(int(used[0]) for used in tasks) / 1e9
        except OSError:
            pass
        fields = (proc / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS
