"""The thread that redacts large texts of all recordings, one after the other."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

import structlog
from msgspec import Struct

from dragoman.adapters.base import do_nothing
from dragoman.gateway.process.runtime import run_in_background

BACKLOG_MAX = 64 * 1024 * 1024  # bytes: four of the largest messages
CLOSE_DEADLINE = 5.0  # seconds that `close` waits for the queue

log = structlog.get_logger("dragoman.recording")


class Job(Struct, eq=False):
    """A job for the thread, after which the event loop calls `done`. `size` is in bytes."""

    size: int
    work: Callable[[], None]
    done: Callable[[], None]
    has_begun: bool = False


class RedactionWorker:
    """The thread that redacts. `call` runs a function in the loop, from the thread (`loop.call_soon_threadsafe`).

    The interpreter runs one thread at a time, but a search gives way between two of its steps. The queue is bounded:
    past BACKLOG_MAX bytes nothing more is taken, and the recorder stops recording.
    """

    def __init__(self, call: Callable[[Callable[[], None]], object]) -> None:
        self._call = call
        self._jobs: deque[Job] = deque()
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self.backlog = 0
        """Bytes of the texts that wait."""
        self._thread = threading.Thread(target=self._run, name="redaction", daemon=True)
        self._idle: asyncio.Event | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the work that waits."""
        self._queue.put(None)

    @property
    def busy(self) -> bool:
        """True until the event loop knows that every job is done."""
        return bool(self._jobs)

    def has_room(self, size: int) -> bool:
        """Return True if the queue has room for `size` more bytes."""
        return not self._jobs or self.backlog + size <= BACKLOG_MAX

    def add(self, size: int, work: Callable[[], None], done: Callable[[], None]) -> None:
        """Call `work` in the thread, then `done` in the loop. `work` must not raise."""
        job = Job(size=size, work=work, done=done)
        self._jobs.append(job)
        self.backlog += size
        self._queue.put(job)

    def discard(self) -> None:
        """Drop the queued jobs to free memory. A job that has begun is finished; `done` is called for all jobs."""
        for job in self._jobs:
            if not job.has_begun:
                job.work = do_nothing
                self.backlog -= job.size
                job.size = 0

    async def close(self) -> None:
        """End the thread once all work is done. Log an error if that takes too long: the rest is not recorded."""
        self._idle = asyncio.Event()
        if self._jobs:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_DEADLINE):
                    await self._idle.wait()
        if self._jobs:
            self._jobs.clear()
            log.error("the end of the recordings was not written: redaction took longer than the deadline")
        self.stop()

    def _finish(self) -> None:
        """Call `done` of the oldest job, unless `close` has given up."""
        if self._jobs:
            job = self._jobs.popleft()
            self.backlog -= job.size
            job.done()
        if not self._jobs and self._idle is not None:
            self._idle.set()

    def _run(self) -> None:
        run_in_background()
        while (job := self._queue.get()) is not None:
            job.has_begun = True
            job.work()
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._call(self._finish)
