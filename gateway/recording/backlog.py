"""Count the bytes of recordings that wait for their threads in the budget of memory.

The threads of the writer and of the redaction free memory, but only the event loop may change a meter. So the loop
looks at both queues at each flush, and again while much waits. When memory is short and these queues hold the most,
they are emptied: the sessions are not recorded for a while, as if the disk were full, and the lost lines are counted.
"""

from __future__ import annotations

from dragoman.adapters.meter import STEP, Meter
from dragoman.gateway.overload.memory import MemoryBudget
from dragoman.gateway.recording.redaction_worker import RedactionWorker
from dragoman.gateway.recording.writer import Writer


class RecordingBacklog:
    """The bytes that wait for the writer and for the redaction in its thread."""

    def __init__(self, writer: Writer, worker: RedactionWorker | None, memory: MemoryBudget) -> None:
        self._writer = writer
        self._worker = worker
        self._memory = memory
        self._meter = Meter()
        memory.watch(self._meter, self._relieve)

    def count_bytes(self) -> bool:
        """Count what waits now. Return True if it is so much that it must be counted again soon."""
        self._meter.add(self._size() - self._meter.size)
        return self._meter.size >= STEP

    def release(self) -> None:
        """Count nothing more: the recordings are closed."""
        self._memory.release(self._meter)

    def _size(self) -> int:
        return self._writer.backlog + (self._worker.backlog if self._worker is not None else 0)

    def _relieve(self) -> None:
        self._writer.discard()
        if self._worker is not None:
            self._worker.discard()
        self._meter.add(self._size() - self._meter.size)
