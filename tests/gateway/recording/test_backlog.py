"""Bytes of recordings that wait for a thread count as memory, and are dropped when it is short."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from dragoman.adapters.meter import STEP, Meter
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.overload.memory import MemoryBudget
from dragoman.gateway.recording.recordings import FLUSH, Recordings
from dragoman.mappings.canonical.events import TextDelta, TurnEnded
from tests.gateway.in_memory import ManualClock
from tests.gateway.recording.recorded_session import RecorderHarness, default_redactor


class Queue(SimpleNamespace):
    """A thread's queue of so many bytes; stands for a writer and for a worker."""

    backlog = 0

    def flush(self) -> None:
        """Write nothing: the test sets the backlog."""

    def discard(self) -> None:
        self.backlog = 0


class Backlog:
    """Recordings whose writer and worker hold as many bytes as a test says, and their timer."""

    def __init__(self, limit: int) -> None:
        self.memory, self.writer, self.worker, self.time = MemoryBudget(limit), Queue(), Queue(), ManualClock()
        queues = cast("Any", self.writer), cast("Any", self.worker)
        self.recordings = Recordings(*queues, Ledger(), self.memory, self.time.later, redactor=default_redactor)

    def flush(self) -> None:
        self.recordings.wants_flush(lambda: None, FLUSH)
        self.time.passes(FLUSH)


def test_bytes_that_wait_for_a_thread_count_as_memory_until_they_are_written() -> None:
    backlog = Backlog(100 * STEP)
    before = backlog.memory.used
    backlog.writer.backlog, backlog.worker.backlog = 3 * STEP, 2 * STEP
    backlog.flush()
    assert backlog.memory.used - before == 5 * STEP
    backlog.writer.backlog = backlog.worker.backlog = 0
    backlog.time.passes(FLUSH)  # they are counted again without a further flush
    assert backlog.memory.used == before


def test_the_backlog_is_dropped_at_the_limit_and_a_smaller_holder_is_kept() -> None:
    backlog = Backlog(10 * STEP)
    client, cut = Meter(), list[str]()
    backlog.memory.watch(client, lambda: cut.append("client"))
    client.add(3 * STEP)
    backlog.writer.backlog, backlog.worker.backlog = 5 * STEP, 4 * STEP
    backlog.flush()
    assert (backlog.writer.backlog, backlog.worker.backlog, cut) == (0, 0, [])


async def test_closed_recordings_count_nothing() -> None:
    harness = RecorderHarness()
    harness.disk.backlog = 3 * STEP
    flush(harness)
    assert harness.memory.used > 3 * STEP
    await harness.recordings.close()
    assert harness.memory.used == 0


def flush(harness: RecorderHarness) -> None:
    """Flush this recording at once, as much text does, and then all that wait for the shared timer."""
    harness.recorder.flush()
    harness.recordings.wants_flush(lambda: None, FLUSH)
    harness.passes(0.05)


def test_text_that_redaction_holds_back_counts_as_memory_until_it_is_written() -> None:
    harness = RecorderHarness()
    before = harness.memory.used
    harness.happens(TextDelta(text="word " * (STEP // 2)))
    flush(harness)
    assert harness.memory.used - before > STEP
    harness.happens(TurnEnded(end="completed"))
    flush(harness)
    assert harness.memory.used == before


def test_text_that_redaction_holds_back_is_dropped_and_counted_when_memory_is_short() -> None:
    harness = RecorderHarness()
    harness.memory.change_limit(2 * STEP)
    harness.happens(TextDelta(text="word " * (STEP // 2)))
    flush(harness)
    assert harness.memory.relieved == 1
    assert harness.memory.used <= 2 * STEP
    assert harness.ledger.counters["recording_lines_lost"] == 1
