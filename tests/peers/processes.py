"""A dragoman process: awaited, ended by SIGTERM, its exit code checked."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

from tests.awaited import Awaited
from tests.forked_program import NOTHING, Fork

START = 20.0  # seconds until a process must listen, on a machine that does other things too
END = 15.0  # seconds until a process must have ended after SIGTERM: its own drain deadline is 10


class Process(Awaited):
    """A running `dragoman ...`: its endpoints, and its log so far."""

    def __init__(self, process: Fork) -> None:
        super().__init__()
        self.process = process
        self.endpoints: list[str] = []
        self.log: list[str] = []

    @property
    def url(self) -> str:
        """The first endpoint without its dialect."""
        return self.endpoints[0].partition("+")[2]

    async def kill(self) -> None:
        """Send SIGKILL, and wait until the process has ended."""
        self.process.kill()
        await self.ended()

    async def ended(self) -> int:
        """Wait until the process has ended; return its exit code."""
        return await asyncio.to_thread(self.process.wait)

    async def logs(self, text: str, mark: int = 0) -> None:
        """Wait until the process has logged this, in the lines from `mark` on."""
        await self.until(lambda: any(text in line for line in self.log[mark:]))

    def resident(self) -> int:
        """Return the resident memory of the process in bytes (Linux)."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text("ascii").split()[1]
        return int(pages) * resource.getpagesize()

    def deafen(self) -> None:
        """Close our end of its stderr, so that all later log output fails."""
        self._transport.close()

    async def read(self, stderr: BinaryIO, ready: asyncio.Event) -> None:
        """Read what the process writes to this pipe."""
        stream, loop = asyncio.StreamReader(), asyncio.get_running_loop()
        self._transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), stderr)
        while line := await stream.readline():
            text = line.decode().rstrip("\n")
            self.log.append(text)
            self.note()
            if text.startswith("listening "):
                self.endpoints.append(text.removeprefix("listening "))
                ready.set()
        self._transport.close()
        ready.set()


@asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[Process]:
    """Run `dragoman ARGUMENTS` until the block ends; unless it was killed it must then exit with 0."""
    output, theirs = os.pipe()
    process = Process(Fork(*arguments, streams=(NOTHING, NOTHING, theirs)))
    os.close(theirs)
    stderr = os.fdopen(output, "rb", 0)
    ready = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(process.read(stderr, ready), name="stderr")
        try:
            async with asyncio.timeout(START):
                await ready.wait()
            assert process.endpoints, "\n".join(process.log)
            yield process
        finally:
            killed = process.process.returncode is not None
            if not killed:
                process.process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(END):
                    await process.ended()
            except TimeoutError:
                process.process.kill()
                raise AssertionError("did not end after SIGTERM:\n" + "\n".join(process.log[-20:])) from None
    assert killed or process.process.returncode == 0, "\n".join(process.log[-20:])
    assert not any("Traceback" in line for line in process.log), "\n".join(process.log)
