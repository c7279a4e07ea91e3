"""Bytes of recordings that wait for a thread count as memory, and are dropped when it is short."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from dragoman.adapters.meter import STEP, Meter
from dragoman.gateway.overload.memory import MemoryBudget
from dragoman.gateway.recording.recordings import RecordingBacklog
from dragoman.gateway.recording.session_redactor import HeldBack
from dragoman.mappings.canonical.events import TextDelta, TurnEnded
from tests.gateway.recording.recorded_session import RecorderHarness


class Queue(SimpleNamespace):
    """A thread's queue of so many bytes."""

    backlog: int

    def discard(self) -> None:
        self.backlog = 0


def counted(limit: int) -> tuple[MemoryBudget, RecordingBacklog, Queue, Queue]:
    memory, writer, worker = MemoryBudget(limit), Queue(backlog=0), Queue(backlog=0)
    return memory, RecordingBacklog(cast("Any", writer), cast("Any", worker), memory, HeldBack()), writer, worker


def test_bytes_that_wait_for_a_thread_count_as_memory_until_they_are_written() -> None:
    memory, backlog, writer, worker = counted(100 * STEP)
    before = memory.used
    writer.backlog, worker.backlog = 3 * STEP, 2 * STEP
    assert backlog.count_bytes()
    assert memory.used - before == 5 * STEP
    writer.backlog = worker.backlog = 0
    assert not backlog.count_bytes()
    assert memory.used == before


def test_the_backlog_is_dropped_at_the_limit_and_a_smaller_holder_is_kept() -> None:
    memory, backlog, writer, worker = counted(10 * STEP)
    client, cut = Meter(), list[str]()
    memory.watch(client, lambda: cut.append("client"))
    client.add(3 * STEP)
    writer.backlog, worker.backlog = 5 * STEP, 4 * STEP
    assert not backlog.count_bytes()
    assert (writer.backlog, worker.backlog, cut) == (0, 0, [])


def test_closed_recordings_count_nothing() -> None:
    memory, backlog, writer, _ = counted(10 * STEP)
    writer.backlog = 3 * STEP
    backlog.count_bytes()
    backlog.release()
    assert memory.used == 0


def flush(harness: RecorderHarness) -> None:
    """Flush this recording at once, as much text does, and then all that wait for the shared timer."""
    harness.recorder.flush()
    harness.recordings.wants_flush(lambda: None)
    harness.passes(0.05)


def test_text_that_redaction_holds_back_counts_as_memory_until_it_is_written() -> None:
    harness = RecorderHarness(redacts=True)
    before = harness.memory.used
    harness.happens(TextDelta(text="word " * (STEP // 2)))
    flush(harness)
    assert harness.memory.used - before > STEP
    harness.happens(TurnEnded(end="completed"))
    flush(harness)
    assert harness.memory.used == before


def test_text_that_redaction_holds_back_is_dropped_and_counted_when_memory_is_short() -> None:
    harness = RecorderHarness(redacts=True)
    harness.memory.change_limit(2 * STEP)
    harness.happens(TextDelta(text="word " * (STEP // 2)))
    flush(harness)
    assert harness.memory.relieved == 1
    assert harness.memory.used <= 2 * STEP
    assert harness.ledger.counters["recording_lines_lost"] == 1
