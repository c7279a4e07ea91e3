"""Real processes under fault: started, killed, ended, and observed from outside."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.awaited import comes_true
from tests.forked_program import NOTHING, Fork

START = 30.0  # seconds until a program must listen, on a busy machine
END = 15.0  # seconds until a program must have ended after SIGTERM
GONE = 10.0  # seconds until the children of a killed gateway must have ended
LOOK = 0.02
PAGE = os.sysconf("SC_PAGE_SIZE")


class Program:
    """A process `python -m ARGUMENTS`, forked if it is `dragoman`. `endpoints` has the lines in which it reports where
    it listens.
    """

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._process: asyncio.subprocess.Process | Fork
        self.endpoints: list[str] = []

    @property
    def pid(self) -> int:
        return self._process.pid

    async def start(self, listeners: int = 1) -> None:
        """Start the program, and wait until it listens at this many endpoints."""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `_ended`
        if self._arguments[0] == "dragoman":
            self._process = Fork(*self._arguments[1:], streams=(NOTHING, NOTHING, self._log.fileno()))
        else:
            pipe = asyncio.subprocess.PIPE
            command = (sys.executable, "-m", *self._arguments)
            self._process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=self._log)
        async with asyncio.timeout(START):
            while len(self.endpoints) < listeners:
                await asyncio.sleep(LOOK)
                lines = self.log().splitlines()
                self.endpoints = [line.removeprefix("listening ") for line in lines if line.startswith("listening ")]
                if self._process.returncode is not None:
                    raise RuntimeError(f"{' '.join(self._arguments)} ended:\n{self.log()}")

    def log(self) -> str:
        """Return the text that the program wrote to stderr."""
        return os.pread(self._log.fileno(), 1 << 24, 0).decode(errors="replace")

    async def kill(self) -> None:
        """Kill the program, and wait until it has ended."""
        self._process.kill()
        await self._ended()

    async def terminate(self) -> int:
        """Send SIGTERM; return the exit code."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        if not await comes_true(self._has_ended, END, LOOK):
            self._process.kill()
        return await self._ended()

    async def _has_ended(self) -> bool:
        return self._process.returncode is not None

    async def _ended(self) -> int:
        if isinstance(self._process, Fork):
            code = await asyncio.to_thread(self._process.wait)
        else:
            await self._process.communicate()
            code = await self._process.wait()
        self._log.close()
        return code

    @property
    def _piped(self) -> asyncio.subprocess.Process:
        """The process of a program that talks with the test by its stdin and stdout."""
        assert not isinstance(self._process, Fork)
        return self._process

    def tell(self, line: str) -> None:
        """Write a line to the program's stdin."""
        assert self._piped.stdin is not None
        self._piped.stdin.write(f"{line}\n".encode())

    def close_input(self) -> None:
        """Close the program's stdin."""
        assert self._piped.stdin is not None
        self._piped.stdin.close()

    async def next_line(self) -> str:
        """Return the next line of the program's stdout."""
        assert self._piped.stdout is not None
        async with asyncio.timeout(START):
            return (await self._piped.stdout.readline()).decode().rstrip("\n")

    def resident(self) -> int:
        """Return the resident memory of the program in bytes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text("ascii").split()[1]) * PAGE

    def descriptors(self) -> int:
        """Return the number of the program's open file descriptors."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))


@asynccontextmanager
async def running(*arguments: str, listeners: int = 1) -> AsyncIterator[Program]:
    """Run a program until the block ends, unless it was killed."""
    program = Program(*arguments)
    await program.start(listeners)
    try:
        yield program
    finally:
        if program._process.returncode is None:
            await program.terminate()


def children_of(pid: int) -> dict[int, str]:
    """Return the command lines of the direct children of a process, by their ids."""
    found = {}
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and _parent(folder) == pid:
                found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue  # it has ended
    return found


def _parent(folder: Path) -> int:
    return int((folder / "stat").read_text().rpartition(")")[2].split()[1])


def is_running(pid: int) -> bool:
    """Return True if a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def wait_until_gone(pids: set[int]) -> set[int]:
    """Wait until these processes have ended; return those that have not."""

    async def gone() -> bool:
        return not any(map(is_running, pids))

    await comes_true(gone, GONE, LOOK)
    return {pid for pid in pids if is_running(pid)}
