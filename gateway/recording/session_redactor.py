"""Redact and encode the steps of one recording, in the event loop or in the thread of redaction_worker.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.recording.format import Item, encode_lines, packed
from dragoman.gateway.recording.parts import RecordingParts
from dragoman.gateway.recording.pending import PendingSteps
from dragoman.gateway.recording.redaction.redactor import Redactor
from dragoman.gateway.recording.redaction_worker import INLINE_MAX, RedactionWorker

log = structlog.get_logger("dragoman.recording")

Encoded = tuple[Sequence[Item], bytes]


class SessionRedactor:
    """The redactor of one recording; `make` returns a new one after a failure. `parts` write the redacted lines."""

    __slots__ = ("_in_thread", "_ledger", "_make", "_parts", "_worker", "redactor")

    def __init__(
        self, make: Callable[[], Redactor], parts: RecordingParts, ledger: Ledger, worker: RedactionWorker | None
    ) -> None:
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

    def finish(self, then: Callable[[], None]) -> None:
        """Write all that is left, then call `then`: no more will come."""

        def end() -> None:
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
