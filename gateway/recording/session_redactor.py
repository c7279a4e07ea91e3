"""Redact and encode the steps of one recording, in the event loop or in a thread.

Searching a MiB for secrets takes 0.1 to 0.7 s. So a flush with more text than INLINE_MAX goes to the thread. While it
is busy, all later flushes follow: they are redacted in order, and never in two threads at once.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from dragoman.adapters.meter import STEP
from dragoman.gateway.recording.format import StepLine, encode_lines
from dragoman.gateway.recording.parts import RecordingParts
from dragoman.gateway.recording.pending import PendingSteps
from dragoman.gateway.recording.recordings import Recordings
from dragoman.gateway.recording.redaction.redactor import Redactor

INLINE_MAX = 16 * 1024  # bytes: 2 to 10 ms in the loop
PER_ITEM = 8  # bytes that are searched in the time for one frame, event or command: 2 to 12 us
NO_MEMORY = "memory is short (`memory`)"

log = structlog.get_logger("dragoman.recording")

Encoded = tuple[list[StepLine], bytes]

Redact = Callable[[Redactor], list[StepLine]]
"""A function that gives steps to a redactor, and returns those that the redactor releases."""


class SessionRedactor:
    """The redactor of one recording, which is replaced after a failure. `parts` writes the redacted steps."""

    __slots__ = ("_in_thread", "_make", "_parts", "_recordings", "redactor")

    def __init__(self, recordings: Recordings, parts: RecordingParts) -> None:
        self._recordings = recordings
        self._make = recordings.redactor
        self._parts = parts
        self._in_thread = 0  # jobs that the worker has not done; meanwhile only its thread uses the redactor
        self.redactor = self._make()

    @property
    def busy(self) -> bool:
        """True while the thread redacts steps of this recording."""
        return self._in_thread > 0

    def redact(self, notes: PendingSteps, now: int, on_done: Callable[[], None]) -> int:
        """Redact and write the gathered steps, then call `on_done`. Stop recording if too much waits for the thread.

        Return the number of bytes in which secrets are searched, and PER_ITEM for each item that came or is held back.
        The number is at most INLINE_MAX, because the thread searches the rest.
        """
        number, size = notes.count, notes.size
        searched = notes.searched + PER_ITEM * number + self._searched_at_release
        lines = notes.take()
        self._run(size, number, lambda redactor: redactor.feed(lines(), now), on_done, in_loop=searched <= INLINE_MAX)
        return min(searched, INLINE_MAX)

    def discard(self) -> None:
        """Drop the text that is held back, and stop recording for a while, to free memory.

        Do nothing while the thread uses the redactor.
        """
        if not self.busy:
            number, self.redactor = self.redactor.held_items, self._make()
            self._note_held(0)
            self._parts.fail(NO_MEMORY, number)

    def finish(self, on_done: Callable[[], None]) -> None:
        """Write all remaining steps, then call `on_done`."""

        def end() -> None:
            self._note_held(0)
            self._count_redacted()
            on_done()

        in_loop = self._searched_at_release <= INLINE_MAX
        self._run(0, 0, Redactor.finish, end, in_loop=in_loop)

    @property
    def _searched_at_release(self) -> int:
        """Bytes to search when the text that is held back is released; 0 while the thread uses the redactor."""
        return 0 if self._in_thread else PER_ITEM * self.redactor.held_items

    def _run(self, size: int, number: int, redact: Redact, on_done: Callable[[], None], *, in_loop: bool) -> None:
        """Redact and write `number` items, then call `on_done`: in the loop if the thread is not busy and `in_loop`."""
        worker = self._recordings.worker
        if in_loop and not worker.busy:
            self._write(self._encoded(redact), number)
            on_done()
        elif size and not worker.has_room(size):
            self._parts.fail("redaction does not keep up", number)
            on_done()
        else:
            results: list[Encoded | None] = []

            def done() -> None:
                self._in_thread -= 1
                if results:
                    self._write(results[0], number)
                else:
                    self._parts.fail(NO_MEMORY, number)
                on_done()

            self._in_thread += 1
            worker.add(size, lambda: results.append(self._encoded(redact)), done)

    def _encoded(self, redact: Redact) -> Encoded | None:
        """Return the steps that the redactor releases, and their bytes; None if it fails."""
        try:
            steps = redact(self.redactor)
            return steps, encode_lines(steps)
        except Exception:  # a failure must neither stop traffic nor let a secret pass
            log.exception("redaction failed", session=self._parts.header.session)
            self.redactor = self._make()
            return None

    def _write(self, encoded: Encoded | None, number: int) -> None:
        """Write the steps that the redactor released. If it failed, stop recording; `number` items are lost."""
        if encoded is None:
            self._parts.fail("redaction failed", number)
        elif encoded[0]:
            first, last = encoded[0][0], encoded[0][-1]
            self._parts.write(first.seq, last.seq + last.count - first.seq, encoded[1])
        if not self._in_thread:  # else the thread uses the redactor
            self._note_held(self.redactor.held)

    def _note_held(self, size: int) -> None:
        """Count text that is held back as memory, if it is at least a step of a meter."""
        held = self._recordings.held_back
        if size >= STEP:
            held[self.discard] = size
        elif held:
            held.pop(self.discard, None)

    def _count_redacted(self) -> None:
        """Count the secrets that were left out of a recording, and log their kinds and places."""
        redacted = self.redactor.ledger
        if redacted.total:
            self._recordings.ledger.counters["secrets_redacted"] += redacted.total
            found = [f"{entry.kind} in {entry.place}: {entry.count}" for entry in redacted.entries()]
            log.info("secrets were left out of the recording", session=self._parts.header.session, found=found)
