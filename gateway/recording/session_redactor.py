"""Redact and encode the steps of one recording, in the event loop or in a thread.

Searching a MiB for secrets takes 0.1 to 0.7 s. So a flush with more text than INLINE_MAX goes to the thread. While it
is busy, all later flushes follow: they are redacted in order, and never in two threads at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue

import structlog
from msgspec import Struct

from dragoman.adapters.meter import STEP
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.recording.format import Item, encode_lines, packed
from dragoman.gateway.recording.parts import RecordingParts
from dragoman.gateway.recording.pending import PendingSteps
from dragoman.gateway.recording.redaction.redactor import Redactor

INLINE_MAX = 32 * 1024  # bytes: 3 to 20 ms in the loop
BACKLOG_MAX = 64 * 1024 * 1024  # bytes: four of the largest messages
CLOSE_DEADLINE = 5.0  # seconds that `close` waits for the queue

log = structlog.get_logger("dragoman.recording")

Encoded = tuple[Sequence[Item], bytes]


class Job(Struct, eq=False):
    """Work for the thread, and `done`, which the event loop calls behind it. `size` is in bytes."""

    size: int
    work: Callable[[], None]
    done: Callable[[], None]
    has_begun: bool = False
    is_over: bool = False


def _no_work() -> None:
    """Redact nothing: the text was freed."""


class RedactionWorker:
    """The thread that redacts. `call` runs a function in the loop, from the thread (`loop.call_soon_threadsafe`).

    The interpreter runs one thread at a time, but a search gives way between two of its steps. The queue is bounded:
    past BACKLOG_MAX bytes nothing more is taken, and the recorder stops recording.
    """

    def __init__(self, call: Callable[[Callable[[], None]], object]) -> None:
        self._call = call
        self._jobs: deque[Job] = deque()
        self._queue: SimpleQueue[Job] = SimpleQueue()
        self._backlog = 0
        self._thread: threading.Thread | None = None
        self._idle: asyncio.Event | None = None

    @property
    def backlog(self) -> int:
        """Bytes of the texts that wait."""
        return self._backlog

    @property
    def busy(self) -> bool:
        """True while there is work of which the loop was not told that it is done."""
        return bool(self._jobs)

    def has_room(self, size: int) -> bool:
        """Return True if the queue may take so many bytes more."""
        return not self._jobs or self._backlog + size <= BACKLOG_MAX

    def add(self, size: int, work: Callable[[], None], done: Callable[[], None]) -> None:
        """Call `work` in the thread, then `done` in the loop. `work` must not raise."""
        job = Job(size=size, work=work, done=done)
        self._jobs.append(job)
        self._backlog += size
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="redaction", daemon=True)
            self._thread.start()
        self._queue.put(job)

    def discard(self) -> None:
        """Free what waits, because memory is short. What the thread has begun is finished; `done` is called for all."""
        for job in self._jobs:
            if not job.has_begun:
                job.work = _no_work
                self._backlog -= job.size
                job.size = 0

    async def close(self) -> None:
        """Wait until all work is done. Log an error if that takes too long: the rest is not recorded."""
        self._idle = asyncio.Event()
        if not self._jobs:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_DEADLINE):
                await self._idle.wait()
        if self._jobs:
            self._jobs.clear()
            log.error("the end of the recordings was not written: redaction took longer than the deadline")

    def _collect(self) -> None:
        """Tell the recorders of finished work, in order."""
        while self._jobs and self._jobs[0].is_over:
            job = self._jobs.popleft()
            self._backlog -= job.size
            job.done()
        if not self._jobs and self._idle is not None:
            self._idle.set()

    def _run(self) -> None:
        while True:
            job = self._queue.get()
            job.has_begun = True
            job.work()
            job.is_over = True
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._call(self._collect)


class HeldBack:
    """The bytes that the redactors of all recordings hold back. Only those that hold a step of a meter are known."""

    def __init__(self) -> None:
        self.size = 0
        """Bytes that are held back."""
        self.redactors: dict[SessionRedactor, int] = {}

    def note(self, redactor: SessionRedactor, size: int) -> None:
        """Take note of what a redactor holds back now."""
        self.size -= self.redactors.pop(redactor, 0)
        if size >= STEP:
            self.redactors[redactor] = size
            self.size += size

    def discard(self) -> None:
        """Have all redactors drop what they hold back, because memory is short."""
        for redactor in list(self.redactors):
            redactor.discard()


class SessionRedactor:
    """The redactor of one recording; `make` returns a new one after a failure. `parts` write the redacted lines."""

    __slots__ = ("_held_back", "_in_thread", "_ledger", "_make", "_parts", "_worker", "redactor")

    def __init__(
        self,
        make: Callable[[], Redactor],
        parts: RecordingParts,
        ledger: Ledger,
        worker: RedactionWorker | None,
        held_back: HeldBack,
    ) -> None:
        self._held_back = held_back
        self._make = make
        self._parts = parts
        self._ledger = ledger
        self._worker = worker
        self._in_thread = 0  # jobs that the worker has not done: meanwhile the redactor is its own
        self.redactor = make()

    @property
    def busy(self) -> bool:
        """True while the thread redacts steps of this recording."""
        return self._in_thread > 0

    def redact(self, notes: PendingSteps, now: int, then: Callable[[], None]) -> None:
        """Redact and write the gathered steps, then call `then`. Stop recording if too much waits for the thread."""
        number, size, worker = notes.count, notes.searched, self._worker
        if worker is None or not (worker.busy or size > INLINE_MAX):
            self._write(self._encoded(lambda: self.redactor.feed(notes.take(), now)), number)
            then()
            return
        detached = notes.detach()
        if worker.has_room(size):
            self._redact_in_thread(worker, size, number, lambda: self.redactor.feed(detached.take(), now), then)
        else:
            self._parts.fail("redaction does not keep up", number)
            then()

    def discard(self) -> None:
        """Drop what is held back, unless the thread has it, and stop recording for a while: memory is short."""
        if not self.busy:
            number, self.redactor = self.redactor.held_lines, self._make()
            self._held_back.note(self, 0)
            self._parts.fail("memory is short (`memory`)", number)

    def finish(self, then: Callable[[], None]) -> None:
        """Write all that is left, then call `then`: no more will come."""

        def end() -> None:
            self._held_back.note(self, 0)
            self._tell_redacted()
            then()

        if self._worker is not None and self._worker.busy:
            self._redact_in_thread(self._worker, 0, 0, self._rest, end)
        else:
            self._write(self._encoded(self._rest), 0)
            end()

    def _rest(self) -> list[Item]:
        return self.redactor.finish()

    def _redact_in_thread(
        self,
        worker: RedactionWorker,
        size: int,
        number: int,
        redact: Callable[[], list[Item]],
        then: Callable[[], None],
    ) -> None:
        results: list[Encoded | None] = []

        def done() -> None:
            self._in_thread -= 1
            if results:
                self._write(results[0], number)
            else:
                self._parts.fail("memory is short (`memory`)", number)
            then()

        self._in_thread += 1
        worker.add(size, lambda: results.append(self._encoded(redact)), done)

    def _encoded(self, redact: Callable[[], list[Item]]) -> Encoded | None:
        """Return the lines that the redactor releases, and their bytes; None if it fails."""
        try:
            lines = redact()
            return lines, encode_lines(packed(lines)) if lines else b""
        except Exception:  # a failure must neither stop traffic nor let a secret pass
            log.exception("redaction failed", session=self._parts.header.session)
            self.redactor = self._make()
            return None

    def _write(self, encoded: Encoded | None, number: int) -> None:
        """Write the lines that the redactor released. If it failed, stop recording; `number` items are lost."""
        if encoded is None:
            self._parts.fail("redaction failed", number)
        else:
            lines, data = encoded
            write_lines(self._parts, lines, lambda: data)
        if self._in_thread:  # the redactor is the thread's own
            return
        held = self.redactor.held
        if held >= STEP or self in self._held_back.redactors:  # seldom
            self._held_back.note(self, held)

    def _tell_redacted(self) -> None:
        """Count the secrets that were left out of a recording, and log their kinds and places."""
        redacted = self.redactor.ledger
        if redacted.total:
            self._ledger.counters["secrets_redacted"] += redacted.total
            found = [f"{entry.kind} in {entry.place}: {entry.count}" for entry in redacted.entries()]
            log.info("secrets were left out of the recording", session=self._parts.header.session, found=found)


def write_lines(parts: RecordingParts, lines: Sequence[Item], encoded: Callable[[], bytes]) -> None:
    """Write lines to the parts of their recording, if there are any."""
    if lines:
        parts.write(lines[0].seq, lines[-1].seq + lines[-1].count - lines[0].seq, encoded)
